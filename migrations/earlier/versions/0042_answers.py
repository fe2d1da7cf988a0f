"""Experiments have the answer of their report: whether the model may be released.

Revision ID: 0042
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    """Adds the column; null for what ended before."""
    op.add_column("experiments", sa.Column("answer", sa.JSON(none_as_null=True), nullable=True))
