"""Clients' histories are read from the ledger itself: the index beside it is gone.

Revision ID: 0040
"""

from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    """Drops the index."""
    op.drop_table("client_rounds")
    op.drop_column("ledger_totals", "indexed_rounds")
