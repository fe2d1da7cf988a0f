"""What repositories share: the project they may see, and the few statements they all use."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, TypeVar, cast

from sqlalchemy import CursorResult, Executable, Insert, Select, Table, Update, inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import Delete, ReturningInsert

from models.tables.base import Base

Row = TypeVar("Row", bound=Base)


_AS_IT_IS = {"populate_existing": True}
_PAST_OBJECTS = {"synchronize_session": False}
_NO_VALUES: Mapping[str, object] = {}
_GATHERED = "fedaudit.gathered"
"""Where a session keeps what `gathered_writes` has gathered."""


@contextmanager
def gathered_writes(session: Session) -> Iterator[None]:
    """Rows that repositories insert or put meanwhile go to the database at the end, many at a time.

    They cannot be read before. For rows of several owners, whose statements would be the same.
    """
    gathered: dict[tuple[Executable, tuple[str, ...]], list[dict[str, Any]]] = {}
    session.info[_GATHERED] = gathered
    try:
        yield
    finally:
        del session.info[_GATHERED]
    for (statement, _), rows in gathered.items():
        session.execute(statement, rows)


class Repository:
    """Statements within the caller's transaction; repositories never commit."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def _execute(
        self, statement: Update | Delete, values: Mapping[str, object] = _NO_VALUES
    ) -> int:
        """The number of rows changed. Objects read before keep their old values."""
        result = self.session.execute(statement, values, execution_options=_PAST_OBJECTS)
        return cast(CursorResult[Any], result).rowcount

    def _insert(self, table: type[Base], rows: Sequence[dict[str, Any]]) -> None:
        """Many rows in one go, past the ORM's unit of work."""
        if rows:
            self._write(_plain_insert(table), rows)

    def _write(self, statement: Executable, rows: Sequence[dict[str, Any]]) -> None:
        gathered = self.session.info.get(_GATHERED)
        if gathered is None:
            self.session.execute(statement, list(rows))
        else:
            for row in rows:
                # Rows of one statement have the same columns.
                gathered.setdefault((statement, tuple(row)), []).append(row)

    def _insert_absent(self, table: type[Base], row: dict[str, Any], **computed: Any) -> bool:
        """Inserts unless the key exists; a concurrent insert of the key is waited for.

        `computed`: columns that the database computes.
        """
        statement = _absent_insert(table, self._dialect())
        if computed:
            statement = statement.values(computed)
        return self.session.execute(statement, row).first() is not None

    def _insert_all_absent(self, table: type[Base], rows: Sequence[dict[str, Any]]) -> None:
        """Inserts those rows whose key does not exist."""
        if rows:
            self.session.execute(_insert_on(table, self._dialect()).on_conflict_do_nothing(), rows)

    def _put(self, table: type[Base], row: dict[str, Any]) -> None:
        """Inserts the row, or overwrites the one with its primary key."""
        self._write(_upsert(table, self._dialect(), tuple(row)), [row])

    def _dialect(self) -> str:
        return self.session.get_bind().dialect.name

    def _one(self, statement: Select[Row], **values: object) -> Row | None:
        """The row as it is now, also where this session has read it before.

        `values`: of a statement that is made once, as those should be that many requests send:
        making one costs more than sending it.
        """
        return self.session.scalars(statement, values, execution_options=_AS_IT_IS).one_or_none()

    def _all(self, statement: Select[Row], **values: object) -> list[Row]:
        """The rows as they are now; `values` as in `_one`."""
        return list(self.session.scalars(statement, values, execution_options=_AS_IT_IS))


class ScopedRepository(Repository):
    """Sees the rows of one project only."""

    def __init__(self, session: Session, project_id: str) -> None:
        super().__init__(session)
        self.project_id = project_id

    def _select(self, table: type[Row]) -> Select[Row]:
        return select(table).where(table_of(table).c.project_id == self.project_id)


class PartRepository(Repository):
    """Rows that belong to one owner, such as an experiment.

    Built with a project it reads that project's rows only, as the API must; without one it reads
    across projects, as workers and the sweeper do. Rows are written under the project they name.
    """

    _owner: ClassVar[str]
    """The column that names the owner."""

    def __init__(self, session: Session, project_id: str | None = None) -> None:
        super().__init__(session)
        self.project_id = project_id

    def _select(self, table: type[Row], owner_id: str) -> Select[Row]:
        columns = table_of(table).c
        statement = select(table).where(columns[self._owner] == owner_id)
        if self.project_id is not None:
            statement = statement.where(columns.project_id == self.project_id)
        return statement


class ExperimentPartRepository(PartRepository):
    """Rows that belong to one experiment."""

    _owner = "experiment_id"


def table_of(table: type[Base]) -> Table:
    """The Core table behind a mapped class."""
    return cast(Table, inspect(table).local_table)


def _insert_on(table: type[Base], dialect: str) -> postgresql.Insert | sqlite.Insert:
    """An insert that knows `ON CONFLICT`, which each database has of its own."""
    if dialect == "postgresql":
        return postgresql.insert(table_of(table))
    return sqlite.insert(table_of(table))


@cache
def _absent_insert(table: type[Base], dialect: str) -> ReturningInsert[Any]:
    """Gives the key where there was none."""
    statement = _insert_on(table, dialect).on_conflict_do_nothing()
    return statement.returning(*table_of(table).primary_key.columns)


@cache
def _plain_insert(table: type[Base]) -> Insert:
    return table_of(table).insert()


@cache
def _upsert(
    table: type[Base], dialect: str, names: tuple[str, ...]
) -> postgresql.Insert | sqlite.Insert:
    """Kept, because every flush uses it and building it costs more than running it."""
    keys = [column.name for column in table_of(table).primary_key]
    statement = _insert_on(table, dialect)
    changed = {name: statement.excluded[name] for name in names if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)
