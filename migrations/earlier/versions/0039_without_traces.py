"""Units keep no trace of the request that made them.

Revision ID: 0039
"""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drops the column."""
    op.drop_column("units", "traceparent")


def downgrade() -> None:
    """Adds it, without what it held."""
    op.add_column("units", sa.Column("traceparent", sa.String(64), nullable=True))
