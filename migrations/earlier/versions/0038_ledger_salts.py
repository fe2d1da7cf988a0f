"""Experiments have a salt that the digests of their ledger are keyed with; reports have the layout
of their model beside them.

Revision ID: 0038
"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0036"


def upgrade() -> None:
    """Adds the columns. Experiments that were admitted before keep plain digests."""
    op.add_column("experiments", sa.Column("ledger_salt", sa.LargeBinary(), nullable=True))
    layout = sa.Column("model_layout", sa.JSON(none_as_null=True), nullable=True)
    op.add_column("reports", layout)
