"""Ledger rows of several components: what each layer of a model released.

Revision ID: 0006
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Adds the column, which what is there leaves empty: an upload of one component."""
    op.add_column("ledger", sa.Column("components", sa.JSON(none_as_null=True), nullable=True))
