"""One budget per content over all projects, and figures of other clients kept apart.

- `contents` holds each real content of the service and the project whose totals hold for all: the
  first that registered it or had a total on it. Made-up data has no row.
- Budgets and reservations have the key by which their clients are told apart. What is stored gets
  that of its experiment's spec; reservations whose clients were dealt by a seed, or whose
  experiment is gone, keep '' and count as the same, whatever the others are. The rows of a sum add
  up to what the one row held, and a total stays under '', where it names nobody's clients.
- Federations count the profiles that were published of them, and tables have a sketch of their
  rows, by which near-copies are found among what is registered from here on.

Revision ID: 0015
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.earlier.tables import create_table

revision = "0015"
down_revision = "0014"

_BEFORE = ("federation_id", "book", "figure", "delta", "adjacency", "observer")
_AFTER = (*_BEFORE, "unit_key")
_MADE_UP = ("synthetic-linear", "synthetic-groups")
_BUDGETS = sa.table(
    "federation_budgets", *map(sa.column, (*_AFTER, "project_id", "total", "reserved", "spent"))
)
_RESERVATIONS = sa.table(
    "reservations", *map(sa.column, ("experiment_id", *_AFTER, "amount", "spent", "state", "unit"))
)
_EXPERIMENTS = sa.table("experiments", sa.column("id"), sa.column("spec"))
_CONTENTS = sa.table("contents", sa.column("fingerprint"), sa.column("owner_project_id"))

Row = Mapping[str, Any]


def upgrade() -> None:
    """Adds the tables and columns, and moves what is stored to its clients."""
    _create_tables()
    op.add_column(
        "federations", sa.Column("profiles", sa.Integer(), nullable=False, server_default="0")
    )
    op.execute("UPDATE federations SET profiles = 1 WHERE profiled_at IS NOT NULL")
    op.create_index("ix_federations_fingerprint", "federations", ["fingerprint"])
    _name_contents()
    for table in ("federation_budgets", "reservations"):
        kind, empty = sa.String(length=255), sa.text("''")
        op.add_column(table, sa.Column("unit_key", kind, nullable=False, server_default=empty))
    _change_keys(_BEFORE, _AFTER)
    for budget in _rows(_BUDGETS):
        _keep_apart(budget)


def _create_tables() -> None:
    create_table(
        "contents",
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("owner_project_id", sa.String(length=36), nullable=True),
        key=("fingerprint",),
        references={"owner_project_id": "projects.id"},
    )
    create_table(
        "row_sketches",
        sa.Column("federation_id", sa.String(length=36), nullable=False),
        sa.Column(
            "hashes",
            postgresql.ARRAY(sa.BigInteger()).with_variant(sa.JSON(), "sqlite"),
            nullable=False,
        ),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        key=("federation_id",),
        references={"federation_id": "federations.id"},
    )
    create_table(
        "near_copies",
        sa.Column("federation_id", sa.String(length=36), nullable=False),
        sa.Column("other_id", sa.String(length=36), nullable=False),
        sa.Column("share", sa.Double(), nullable=False),
        *(
            sa.ForeignKeyConstraint([name], ["federations.id"], name=f"fk_near_copies_{name}")
            for name in ("federation_id", "other_id")
        ),
        key=("federation_id", "other_id"),
    )


def _name_contents() -> None:
    """The first project that registered a content, or had a total on it, owns it."""
    rows = op.get_bind().execute(
        sa.text(
            "SELECT f.fingerprint, f.project_id, f.source, f.registration IS NOT NULL OR EXISTS ("
            " SELECT 1 FROM federation_budgets b"
            " WHERE b.federation_id = f.id AND b.total IS NOT NULL) AS claims"
            " FROM federations f ORDER BY f.created_at, f.id"
        )
    )
    owners: dict[str, str | None] = {}
    for fingerprint, project_id, source, claims in rows:
        if source not in _MADE_UP:
            owner = owners.get(fingerprint) or (project_id if claims else None)
            owners[fingerprint] = owner
    for fingerprint, owner in owners.items():
        values = {"fingerprint": fingerprint, "owner_project_id": owner}
        op.execute(sa.insert(_CONTENTS).values(values))


def _change_keys(old: Iterable[str], new: Iterable[str]) -> None:
    """Another key for both tables; the reference goes first and comes back last."""
    with op.batch_alter_table("reservations") as batch:
        batch.drop_constraint("fk_reservations_budget", type_="foreignkey")
    for table, before in (("federation_budgets", ()), ("reservations", ("experiment_id",))):
        with op.batch_alter_table(table) as batch:
            batch.drop_constraint(f"pk_{table}", type_="primary")
            batch.create_primary_key(f"pk_{table}", [*before, *new])
    with op.batch_alter_table("reservations") as batch:
        batch.create_foreign_key(
            "fk_reservations_budget", "federation_budgets", list(new), list(new)
        )


def _keep_apart(budget: Row) -> None:
    held: dict[str, list[Row]] = defaultdict(list)
    for reservation in _reservations(budget):
        held[_unit_key(reservation)].append(reservation)
    held.pop("", None)
    reserved, spent = budget["reserved"], budget["spent"]
    for unit_key, reservations in held.items():
        mine = _sums(reservations) if budget["figure"] != "epsilon" else (0.0, 0.0)
        _add({**budget, "unit_key": unit_key, "total": None}, *mine)
        for reservation in reservations:
            _move(reservation, unit_key)
        reserved, spent = max(0.0, reserved - mine[0]), max(0.0, spent - mine[1])
    if held and budget["total"] is None and not _reservations(budget) and _none(reserved, spent):
        op.execute(sa.delete(_BUDGETS).where(_is(_BUDGETS, budget)))
        return
    values = {"reserved": reserved, "spent": spent}
    op.execute(sa.update(_BUDGETS).where(_is(_BUDGETS, budget)).values(values))


def _unit_key(reservation: Row) -> str:
    """How the clients of a reservation are told apart, as `fedaudit.privacy.unit_key`
    words it at this revision; '' where that is not known."""
    if reservation["unit"] == "record":
        return "row"
    spec = op.get_bind().scalar(
        sa.select(_EXPERIMENTS.c.spec).where(_EXPERIMENTS.c.id == reservation["experiment_id"])
    )
    if isinstance(spec, str):
        spec = json.loads(spec)
    federation = (spec or {}).get("federation") or {}
    partition = federation.get("partition") or {}
    match federation.get("source"):
        case "synthetic-linear" | "synthetic-groups":
            return "made-up"
        case "femnist":
            return "client_key=user"
        case "hospital-charges":
            column = federation.get("client_key", "zip")
        case "images":
            column = federation.get("client_key", "writer")
        case "table":
            column = federation.get("client_key") or partition.get("column")
        case _:
            column = None
    return "" if column is None else f"client_key={column}"


def _sums(reservations: Iterable[Row]) -> tuple[float, float]:
    """What they hold and what they have spent."""
    rows = list(reservations)
    held = sum(row["amount"] - row["spent"] for row in rows if row["state"] == "held")
    return max(0.0, float(held)), float(sum(row["spent"] for row in rows))


def _none(reserved: float, spent: float) -> bool:
    """Whether nothing is left, but for the rounding of sums."""
    return max(reserved, spent) <= 1e-9


def _add(budget: Row, reserved: float, spent: float) -> None:
    op.execute(sa.insert(_BUDGETS).values({**budget, "reserved": reserved, "spent": spent}))


def _move(reservation: Row, unit_key: str) -> None:
    mine = _is(_RESERVATIONS, reservation)
    experiment = _RESERVATIONS.c.experiment_id == reservation["experiment_id"]
    op.execute(sa.update(_RESERVATIONS).where(mine, experiment).values(unit_key=unit_key))


def _reservations(budget: Row) -> list[Row]:
    return _rows(_RESERVATIONS, **{name: budget[name] for name in _AFTER})


def _rows(table: sa.TableClause, **values: Any) -> list[Row]:
    wanted = [table.c[name] == value for name, value in values.items()]
    return [dict(row) for row in op.get_bind().execute(sa.select(table).where(*wanted)).mappings()]


def _is(table: sa.TableClause, row: Row) -> sa.ColumnElement[bool]:
    return sa.and_(*(table.c[name] == row[name] for name in _AFTER))
