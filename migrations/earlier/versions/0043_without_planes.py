"""Rounds keep no points in the plane of two parameters: no page or report draws them.

A run of synthetic data with simulated noise gives the same points whenever it is played again.

Revision ID: 0043
"""

from alembic import op

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    """Drops the column."""
    op.drop_column("rounds", "plane")
