"""What reports claim, in signed bundles, and the keys of these claims.

Revision ID: 0046
"""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    """Adds the columns; earlier reports have no claims."""
    op.add_column("reports", sa.Column("claims", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("signing_keys", sa.Column("derived_from", sa.String(64), nullable=True))
