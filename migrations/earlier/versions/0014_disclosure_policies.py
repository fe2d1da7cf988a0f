"""Federations have a disclosure policy, and experiments that under which they were admitted.

Both are null for what is stored: whatever was asked until then was allowed.

Revision ID: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Adds the columns."""
    op.add_column("federations", sa.Column("disclosure", sa.JSON(), nullable=True))
    op.add_column(
        "federations", sa.Column("disclosure_set_at", sa.DateTime(timezone=True), nullable=True)
    )
    op.add_column("experiments", sa.Column("disclosure", sa.JSON(), nullable=True))
