"""Attacks: which experiments have alarms.

Revision ID: 0032
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    """Adds the column; null of all that ran before: nothing attacked them."""
    op.add_column("experiments", sa.Column("alarms", sa.Integer(), nullable=True))
