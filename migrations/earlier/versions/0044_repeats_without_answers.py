"""A repeated request is answered by what it came to: no status and no answer is kept for it.

Revision ID: 0044
"""

from alembic import op

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    """Drops the columns, which nothing read."""
    op.drop_column("idempotency_keys", "status_code")
    op.drop_column("idempotency_keys", "response")
