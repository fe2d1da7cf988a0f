"""What rounds tell of clusters: leakage in each, and the plane of two parameters.

Revision ID: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_COLUMNS = ("leakage_by_cluster", "plane")


def upgrade() -> None:
    """Adds the columns; rounds that are there keep them empty."""
    for name in _COLUMNS:
        op.add_column("rounds", sa.Column(name, sa.JSON(none_as_null=True), nullable=True))
