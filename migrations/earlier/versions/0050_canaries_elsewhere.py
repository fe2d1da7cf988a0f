"""Rounds of trainings elsewhere keep what canaries in them show, and ledgers the round of an alarm.

Revision ID: 0050
"""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns; rounds before it have no canaries."""
    op.add_column("declared_rounds", sa.Column("canaries", sa.JSON(), nullable=True))
    op.add_column("declared_ledgers", sa.Column("alarm_round", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Drops them. Refuses where a round has canaries: its declaration covers them."""
    kept = op.get_bind().scalar(
        sa.text("SELECT count(*) FROM declared_rounds WHERE canaries IS NOT NULL")
    )
    if kept:
        raise RuntimeError(
            f"{kept} rounds have canaries, which the chain covers and an earlier version does not "
            "know; stay at this one"
        )
    op.drop_column("declared_ledgers", "alarm_round")
    op.drop_column("declared_rounds", "canaries")
