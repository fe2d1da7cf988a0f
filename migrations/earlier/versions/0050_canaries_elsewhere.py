"""Rounds of trainings elsewhere keep what canaries in them show, and ledgers the round of an alarm.

Revision ID: 0050
"""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"


def upgrade() -> None:
    """Adds the columns; rounds before it have no canaries."""
    op.add_column("declared_rounds", sa.Column("canaries", sa.JSON(), nullable=True))
    op.add_column("declared_ledgers", sa.Column("alarm_round", sa.Integer(), nullable=True))
