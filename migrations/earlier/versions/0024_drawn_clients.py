"""Who was drawn in amplified rounds, apart from a ledger's subjects; reservations replaced.

Revision ID: 0024
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Adds the columns. Names that earlier rounds entered among the subjects stay there: entries
    refer to them by index."""
    packed = sa.JSON().with_variant(postgresql.ARRAY(sa.BigInteger()), "postgresql")
    op.add_column(
        "declared_ledgers", sa.Column("drawn_names", sa.JSON(none_as_null=True), nullable=True)
    )
    op.add_column("declared_ledgers", sa.Column("drawn_counts", packed, nullable=True))
    op.add_column(
        "declared_reservations",
        sa.Column("replaced", sa.Integer(), nullable=False, server_default="0"),
    )
