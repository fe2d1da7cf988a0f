"""A unit that waits and was never published is its own message: no outbox beside the units.

Revision ID: 0051
"""

import sqlalchemy as sa
from alembic import op

from models.tables.base import UtcDateTime

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drops the table. Units that wait are published once more, which does no harm."""
    op.drop_table("outbox")


def downgrade() -> None:
    """Makes it, without messages: units that wait too long are published all the same."""
    op.create_table(
        "outbox",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("project_id", sa.String(36), nullable=False),
        sa.Column("topic", sa.String(64), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("available_at", UtcDateTime(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("published_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    columns = ["published_at", "available_at"]
    op.create_index("ix_outbox_published_at_available_at", "outbox", columns)
