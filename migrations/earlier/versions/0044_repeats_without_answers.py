"""A repeated request is answered by what it came to: no status and no answer is kept for it.

Revision ID: 0044
"""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drops the columns, which nothing read."""
    op.drop_column("idempotency_keys", "status_code")
    op.drop_column("idempotency_keys", "response")


def downgrade() -> None:
    """Adds them again, empty."""
    answer = sa.Column("response", sa.JSON(none_as_null=True), nullable=True)
    op.add_column("idempotency_keys", sa.Column("status_code", sa.Integer(), nullable=True))
    op.add_column("idempotency_keys", answer)
