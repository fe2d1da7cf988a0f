"""Epsilons with a delta: in the ledger, in rounds, and as curves that reservations add up by.

Revision ID: 0005
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"


def _numbers() -> sa.types.TypeEngine[Any]:
    return postgresql.ARRAY(sa.Double()).with_variant(sa.JSON(), "sqlite")


_COLUMNS: dict[str, dict[str, Any]] = {
    "ledger": {
        "epsilons": _numbers(),
        "event": sa.Text(),
        "delta": sa.Double(),
        "adjacency": sa.String(length=64),
        "accountant": sa.String(length=64),
    },
    "experiments": {"mechanism_inputs": sa.JSON(none_as_null=True)},
    "rounds": {"epsilon_max": sa.Double()},
    "reservations": {
        "unit": sa.String(length=64),
        "curve": _numbers(),
        "step": _numbers(),
        "planned": sa.Integer(),
        "compositions": sa.Integer(),
    },
}


def upgrade() -> None:
    """Adds the columns, which what is there leaves empty."""
    for table, columns in _COLUMNS.items():
        for name, kind in columns.items():
            op.add_column(table, sa.Column(name, kind, nullable=True))
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE ledger ALTER COLUMN epsilons SET STORAGE EXTERNAL")
