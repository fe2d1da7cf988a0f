"""Units keep no trace of the request that made them.

Revision ID: 0039
"""

from alembic import op

revision = "0039"
down_revision = "0038"


def upgrade() -> None:
    """Drops the column."""
    op.drop_column("units", "traceparent")
