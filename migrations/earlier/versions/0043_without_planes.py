"""Rounds keep no points in the plane of two parameters: no page or report draws them.

A run of synthetic data with simulated noise gives the same points whenever it is played again.

Revision ID: 0043
"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drops the column."""
    op.drop_column("rounds", "plane")


def downgrade() -> None:
    """Adds it again, empty."""
    op.add_column("rounds", sa.Column("plane", sa.JSON(none_as_null=True), nullable=True))
