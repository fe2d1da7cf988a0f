"""Leakage budgets keep radii and clips apart, and a federation may forbid simulation.

n/nu holds between uploads within a radius that is free, so leakages of different radii are
different figures. Up to now all of a book stood in one row of `federation_budgets`, with '' as its
adjacency. From here on the adjacency of a leakage holds its radius and clip, and every row and
reservation is moved to that of its experiment's spec:

- What was reserved and spent is never lost: the rows of a book add up to what the one row held.
  What belongs to no reservation whose experiment is still known stays under ''.
- A total goes with the reservations where all of them have one radius and clip. Where they have
  several, or there are none, nobody can tell what it was meant for: it stays under '', which no run
  matches, so it refuses every run of its book until a total is set anew.

The theorem's own sum is reserved for runs that are submitted from here on; a budget of it lists
the earlier ones as not counted.

Revision ID: 0011
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_KEY = ("federation_id", "book", "figure", "delta", "adjacency", "observer")
_BUDGETS = sa.table(
    "federation_budgets", *map(sa.column, (*_KEY, "project_id", "total", "reserved", "spent"))
)
_RESERVATIONS = sa.table(
    "reservations", *map(sa.column, ("experiment_id", *_KEY, "amount", "spent", "state"))
)
_EXPERIMENTS = sa.table("experiments", sa.column("id"), sa.column("spec"))

Row = Mapping[str, Any]


def upgrade() -> None:
    """Adds the setting, and moves leakage to its radius and clip."""
    op.add_column(
        "federations",
        sa.Column("simulation", sa.String(length=64), nullable=False, server_default="allowed"),
    )
    for budget in _rows(_BUDGETS, figure="leakage", adjacency=""):
        _keep_apart(budget)


def _keep_apart(budget: Row) -> None:
    held: dict[str, list[Row]] = defaultdict(list)
    for reservation in _reservations(budget):
        held[_terms(reservation["experiment_id"])].append(reservation)
    only = len(held) == 1 and "" not in held
    held.pop("", None)
    reserved, spent = budget["reserved"], budget["spent"]
    for terms, reservations in held.items():
        mine = _sums(reservations)
        if only and _is_all(budget, mine):
            # As they stand, to the last digit.
            mine = reserved, spent
        _add({**budget, "adjacency": terms, "total": budget["total"] if only else None}, *mine)
        for reservation in reservations:
            _move(reservation, terms)
        reserved, spent = max(0.0, reserved - mine[0]), max(0.0, spent - mine[1])
    total = None if only else budget["total"]
    rest = {**budget, "total": total, "reserved": reserved, "spent": spent}
    if _reservations(budget) or total is not None or not _is_all(rest, (0.0, 0.0)):
        values = {"total": total, "reserved": reserved, "spent": spent}
        op.execute(sa.update(_BUDGETS).where(_is(_BUDGETS, budget)).values(values))
    else:
        op.execute(sa.delete(_BUDGETS).where(_is(_BUDGETS, budget)))


def _terms(experiment_id: str) -> str:
    """The radius and the clip of an experiment, as `models.values` words them at this
    revision; '' where they are not known."""
    spec = op.get_bind().scalar(
        sa.select(_EXPERIMENTS.c.spec).where(_EXPERIMENTS.c.id == experiment_id)
    )
    if isinstance(spec, str):
        spec = json.loads(spec)
    privacy = (spec or {}).get("privacy") or {}
    if privacy.get("mechanism") != "laplace-l2":
        return ""
    radius, clip = privacy.get("radius", "adaptive"), privacy.get("clip")
    words = radius if radius == "adaptive" else repr(float(radius))
    return f"radius={words},clip={'none' if clip is None else repr(float(clip))}"


def _sums(reservations: Iterable[Row]) -> tuple[float, float]:
    """What they hold and what they have spent."""
    rows = list(reservations)
    held = sum(row["amount"] - row["spent"] for row in rows if row["state"] == "held")
    return max(0.0, float(held)), float(sum(row["spent"] for row in rows))


def _is_all(budget: Row, sums: tuple[float, float]) -> bool:
    """Whether this is all that the budget has, but for the rounding of sums."""
    pairs = zip((budget["reserved"], budget["spent"]), sums, strict=True)
    return all(abs(have - found) <= 1e-9 * max(1.0, have, found) for have, found in pairs)


def _add(budget: Row, reserved: float, spent: float) -> None:
    op.execute(sa.insert(_BUDGETS).values({**budget, "reserved": reserved, "spent": spent}))


def _move(reservation: Row, adjacency: str) -> None:
    mine = _is(_RESERVATIONS, reservation)
    experiment = _RESERVATIONS.c.experiment_id == reservation["experiment_id"]
    op.execute(sa.update(_RESERVATIONS).where(mine, experiment).values(adjacency=adjacency))


def _reservations(budget: Row) -> list[Row]:
    return _rows(_RESERVATIONS, **{name: budget[name] for name in _KEY})


def _rows(table: sa.TableClause, **values: Any) -> list[Row]:
    wanted = [table.c[name] == value for name, value in values.items()]
    return [dict(row) for row in op.get_bind().execute(sa.select(table).where(*wanted)).mappings()]


def _is(table: sa.TableClause, row: Row) -> sa.ColumnElement[bool]:
    return sa.and_(*(table.c[name] == row[name] for name in _KEY))
