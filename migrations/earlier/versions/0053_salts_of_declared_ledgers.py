"""Declared ledgers have a salt that the digests of their entries are keyed with.

Revision ID: 0053
"""

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"


def upgrade() -> None:
    """Adds the column. Ledgers that were opened before keep plain digests."""
    op.add_column("declared_ledgers", sa.Column("ledger_salt", sa.LargeBinary(), nullable=True))
