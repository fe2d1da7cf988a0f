"""Attacks: which experiments have alarms.

Revision ID: 0032
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the column; null of all that ran before: nothing attacked them."""
    op.add_column("experiments", sa.Column("alarms", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Drops it."""
    op.drop_column("experiments", "alarms")
