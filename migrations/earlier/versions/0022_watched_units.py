"""Units count the leases that were lost, and carry the trace of the request that made them.

What was lost before is not known: counting begins at zero.

Revision ID: 0022
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Adds the columns."""
    op.add_column(
        "units", sa.Column("lost_leases", sa.Integer(), nullable=False, server_default="0")
    )
    op.add_column("units", sa.Column("traceparent", sa.String(64), nullable=True))
