"""Whom reservations refused, and what the chain holds of reservations; arrays that are overwritten
are not compressed.

Revision ID: 0035
"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

_OVERWRITTEN = (
    ("declared_tallies", "counts"),
    ("declared_ledgers", "releases"),
    ("declared_reservations", "admitted"),
    ("declared_reservations", "denied"),
)
"""While a ledger is locked: Postgres takes up to a millisecond to compress one for 1,000 clients,
and there is one for each ledger or round."""


def upgrade() -> None:
    """Adds the columns. Nothing is known of what was refused before, and nothing is chained."""
    op.add_column(
        "declared_reservations", sa.Column("denied", sa.JSON(none_as_null=True), nullable=True)
    )
    op.add_column("declared_rounds", sa.Column("reservations", sa.String(64), nullable=True))
    _store("EXTERNAL")


def _store(how: str) -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    for table, column in _OVERWRITTEN:
        op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE {how}")
