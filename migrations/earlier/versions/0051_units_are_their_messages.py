"""A unit that waits and was never published is its own message: no outbox beside the units.

Revision ID: 0051
"""

from alembic import op

revision = "0051"
down_revision = "0050"


def upgrade() -> None:
    """Drops the table. Units that wait are published once more, which does no harm."""
    op.drop_table("outbox")
