"""Databases of earlier versions: whatever they hold, they get the schema that a new one has."""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic.migration import MigrationContext
from alembic.runtime.environment import EnvironmentContext
from sqlalchemy import Connection, MetaData, Table, inspect, text
from sqlalchemy import types as sql

import migrations
from migrations.revisions import DanglingReferencesError
from models.database import HEAD, Database

REVISIONS = sorted(
    path.name[:4] for path in Path(migrations.__file__).parent.glob("earlier/versions/[0-9]*.py")
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_new_database_has_the_schema_that_the_revisions_lead_to(empty_database_url: str) -> None:
    migrations.upgrade(empty_database_url, HEAD)
    database = Database(empty_database_url)
    with database.read() as session:
        reached = _schema(session.connection())
    with database.write() as session:
        session.execute(text("DROP VIEW privacy_ledger"))
        made = MetaData()
        made.reflect(session.connection())
        made.drop_all(session.connection())
    migrations.upgrade(empty_database_url)
    with database.read() as session:
        assert _schema(session.connection()) == reached
    assert migrations.current(empty_database_url) == HEAD
    database.close()


def _schema(connection: Connection) -> dict[str, Any]:
    """Columns, keys, checks, indices, storage and views, whatever order they were made in."""
    found: dict[str, Any] = {}
    inspector = inspect(connection)
    for name in inspector.get_table_names():
        columns = {one["name"]: one for one in inspector.get_columns(name)}
        found[name] = {
            "columns": {
                key: (str(one["type"]), one["nullable"], one["default"])
                for key, one in columns.items()
            },
            "primary key": inspector.get_pk_constraint(name),
            "foreign keys": _unnamed(inspector.get_foreign_keys(name)),
            "unique": _unnamed(inspector.get_unique_constraints(name)),
            "checks": _unnamed(inspector.get_check_constraints(name)),
            "indices": sorted(map(str, inspector.get_indexes(name))),
        }
    found["views"] = {
        name: [(one["name"], str(one["type"])) for one in inspector.get_columns(name)]
        for name in inspector.get_view_names()
    }
    if connection.dialect.name == "postgresql":
        stored = (
            "SELECT c.relname, a.attname, a.attstorage FROM pg_attribute a JOIN pg_class c "
            "ON c.oid = a.attrelid WHERE c.relnamespace = 'public'::regnamespace "
            "AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2"
        )
        found["storage"] = [tuple(row) for row in connection.execute(text(stored))]
    return found


def _unnamed(constraints: Iterable[Mapping[str, Any]]) -> list[str]:
    """Four constraints of the revisions have names that differ from those of a new database."""
    return sorted(
        str({key: value for key, value in one.items() if key not in ("name", "comment")})
        for one in constraints
    )


def test_rows_of_every_revision_are_carried_along(empty_database_url, monkeypatch):
    """A table gets a row when a revision made it, and after every eighth revision; each later one
    has to keep them all.

    Before, a row that refers to `api_keys` stopped every upgrade from below 0027. Postgres, which
    is slow to say what tables it has, is asked after every eighth alone.
    """
    reached, is_slow = list[str](), empty_database_url.startswith("postgresql")
    filled: dict[str, int] = {}
    rows: dict[str, dict[str, Any]] = {}

    def fill(*, ctx: MigrationContext, **named: Any) -> None:
        reached.append(str(named["step"].up_revision_id))
        connection = ctx.connection
        assert connection is not None
        is_turn = len(reached) % 8 == 0 or reached[-1] == HEAD
        if is_slow and not is_turn:
            return
        found = _counts(connection)
        if filled:
            _compare(filled, found)
        _fill(connection, rows, found.keys() if is_turn else found.keys() - filled.keys())
        filled.clear()
        filled.update(_counts(connection))

    configure = EnvironmentContext.configure
    monkeypatch.setattr(
        EnvironmentContext,
        "configure",
        lambda self, **options: configure(self, **options, on_version_apply=fill),
    )
    migrations.upgrade(empty_database_url, HEAD)
    assert reached == REVISIONS
    assert migrations.current(empty_database_url) == HEAD


def test_what_only_a_budgets_sums_know_stays_spent_without_them(empty_database_url: str) -> None:
    migrations.upgrade(empty_database_url, "0051")
    database = Database(empty_database_url)
    with database.write() as session:
        _fill(session.connection(), {})
        session.execute(text("UPDATE federation_budgets SET spent = 8"))
        session.execute(text("UPDATE reservations SET state = 'held', amount = 4, spent = 1"))
    migrations.upgrade(empty_database_url)
    with database.read() as session:
        kept = "SELECT state, amount, spent FROM reservations ORDER BY spent"
        found = [tuple(row) for row in session.execute(text(kept))]
    assert found == [("held", 4, 1), ("settled", 7, 7)]
    database.close()


def test_a_row_that_refers_to_nothing_stops_the_upgrade_and_is_named(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'damaged.db'}"
    migrations.upgrade(url, "0010")
    database = Database(url, foreign_keys=False)
    with database.write() as session:
        _fill(session.connection(), {})
        session.execute(text("DELETE FROM api_keys"))
    with pytest.raises(DanglingReferencesError, match=r"idempotency_keys -> api_keys.*backup"):
        migrations.upgrade(url)
    assert migrations.current(url) == "0010"
    database.close()


_MOVED = {"declared_entries": "ledger", "declared_checkpoints": "ledger_checkpoints"}


def _compare(before: dict[str, int], after: dict[str, int]) -> None:
    for table, into in _MOVED.items():
        if table in before and table not in after:
            before = {**before, into: before[into] + before[table]}
    kept = before.keys() & after.keys()
    assert {"api_keys", "experiments", "idempotency_keys"} <= kept
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}


def _counts(connection: Connection) -> dict[str, int]:
    return {
        name: connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one()
        for name in inspect(connection).get_table_names()
    }


def _fill(
    connection: Connection, rows: dict[str, dict[str, Any]], tables: Collection[str] | None = None
) -> None:
    """Adds a row to these tables, or to all, which refers to the `rows` added before where it may;
    these are then the newest."""
    if tables is not None and not tables:
        return
    found = MetaData()
    found.reflect(connection, only=tables)
    inspector = inspect(connection)
    for table in found.sorted_tables:
        if table.name != "alembic_version" and (tables is None or table.name in tables):
            checks = " ".join(
                check["sqltext"] for check in inspector.get_check_constraints(table.name)
            )
            rows[table.name] = {**_row(table, rows), **dict(_CHOICE.findall(checks))}
            connection.execute(table.insert().values(rows[table.name]))


_numbers = itertools.count(1)
_VALUES: dict[type[sql.TypeEngine[Any]], Any] = {
    sql.JSON: {},
    sql.ARRAY: [],
    sql.Boolean: False,
    sql.DateTime: NOW,
    sql.LargeBinary: b"{}",
    sql.Numeric: 0.5,
}
# The first of the values that a column may have, in the words of SQLite and of Postgres.
_CHOICE = re.compile(r"\(?(\w+)\)?(?:::\w+)? (?:IN \(|= ANY \(+ARRAY\[)'(\w+)'")


def _row(table: Table, rows: dict[str, dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for column in table.columns:
        if column.foreign_keys:
            [key] = list(column.foreign_keys)[:1]
            target = key.column
            if target.table.name in rows:
                row[column.name] = rows[target.table.name].get(target.name)
                continue
        if not column.nullable or column.primary_key:
            row[column.name] = _value(column.type)
    return row


def _value(kind: Any) -> Any:
    for type_, value in _VALUES.items():
        if isinstance(kind, type_):
            return value
    number = next(_numbers)
    return number if isinstance(kind, sql.Integer) else f"{number}"
