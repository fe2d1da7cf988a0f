"""What is reserved and spent of a budget is the sum of its reservations, and is stored there alone.

Sums that were kept beside them had to be locked, and lost digits. What a budget had spent that no
reservation knows becomes a reservation that is settled, so that nothing is forgotten.

Revision ID: 0052
"""

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"

_KEY = ("federation_id", "book", "figure", "delta", "adjacency", "observer", "unit_key")
_EARLIER = "earlier"
"""As what experiment it is reserved."""
_ROUNDING = 1e-9
_BUDGETS = sa.table("federation_budgets", *map(sa.column, (*_KEY, "reserved", "spent")))
_RESERVATIONS = sa.table(
    "reservations", *map(sa.column, ("experiment_id", *_KEY, "amount", "spent", "state"))
)
_INDEX, _BEFORE = "ix_reservations_sums", "ix_reservations_federation_id"
_MINE = sa.and_(*(_RESERVATIONS.c[name] == _BUDGETS.c[name] for name in _KEY))


def _sum(amount: sa.ColumnElement[float], *conditions: sa.ColumnElement[bool]) -> sa.Select[float]:
    return sa.select(sa.func.coalesce(sa.func.sum(amount), 0.0)).where(_MINE, *conditions)


def upgrade() -> None:
    """Keeps what only the sums know, and drops them."""
    known = _sum(_RESERVATIONS.c.spent).scalar_subquery()
    rest = (_BUDGETS.c.spent - known).label("rest")
    bind = op.get_bind()
    for *key, missing in bind.execute(sa.select(*(_BUDGETS.c[name] for name in _KEY), rest)).all():
        if missing > _ROUNDING:
            values = dict(zip(_KEY, key, strict=True))
            ended = {"amount": missing, "spent": missing, "state": "settled"}
            bind.execute(_RESERVATIONS.insert(), {"experiment_id": _EARLIER, **values, **ended})
    with op.batch_alter_table("federation_budgets") as table:
        table.drop_column("reserved")
        table.drop_column("spent")
    op.drop_index(_BEFORE, "reservations")
    op.create_index(_INDEX, "reservations", [*_KEY, "state", "amount", "spent"])
