"""What declared rounds state beside their entries stands in the chain.

Revision ID: 0025
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Adds the columns. Rounds that were declared before have no declaration, and the links that
    they have stay right."""
    op.add_column("declared_ledgers", sa.Column("secret", sa.LargeBinary(), nullable=True))
    op.add_column("declared_rounds", sa.Column("drawn", sa.String(64), nullable=True))
    op.add_column("declared_entries", sa.Column("declaration", sa.LargeBinary(), nullable=True))
