"""What each client paid and how it fares, beside its report.

Revision ID: 0045
"""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    """Adds the column; nothing is known of the clients of earlier reports."""
    clients = sa.Column("clients", sa.JSON(none_as_null=True), nullable=True)
    op.add_column("reports", clients)
