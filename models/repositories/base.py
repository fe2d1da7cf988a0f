"""What repositories share: the project they may see, and the few statements they all use."""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar, cast

from sqlalchemy import CursorResult, Select, Table, Update, inspect, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import Delete

from models.tables.base import Base

Row = TypeVar("Row", bound=Base)


class Repository:
    """Statements within the caller's transaction; repositories never commit."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def _execute(self, statement: Update | Delete) -> int:
        """The number of rows changed. Objects read before keep their old values."""
        result = self.session.execute(statement, execution_options={"synchronize_session": False})
        return cast(CursorResult[Any], result).rowcount

    def _insert(self, table: type[Base], rows: Sequence[dict[str, Any]]) -> None:
        """Many rows in one go, past the ORM's unit of work."""
        if rows:
            self.session.execute(table_of(table).insert(), rows)

    def _insert_absent(self, table: type[Base], row: dict[str, Any]) -> bool:
        """Inserts unless the key exists; a concurrent insert of the key is waited for."""
        statement = _insert_on(table, self._dialect()).values(row).on_conflict_do_nothing()
        key = table_of(table).primary_key.columns
        return self.session.execute(statement.returning(*key)).first() is not None

    def _put(self, table: type[Base], row: dict[str, Any]) -> None:
        """Inserts the row, or overwrites the one with its primary key."""
        self.session.execute(_upsert(table, self._dialect(), tuple(row)), row)

    def _dialect(self) -> str:
        return self.session.get_bind().dialect.name

    def _one(self, statement: Select[Row]) -> Row | None:
        """The row as it is now, also where this session has read it before."""
        return self.session.scalars(
            statement, execution_options={"populate_existing": True}
        ).one_or_none()

    def _all(self, statement: Select[Row]) -> list[Row]:
        """The rows as they are now."""
        return list(self.session.scalars(statement, execution_options={"populate_existing": True}))


class ScopedRepository(Repository):
    """Sees the rows of one project only."""

    def __init__(self, session: Session, project_id: str) -> None:
        super().__init__(session)
        self.project_id = project_id

    def _select(self, table: type[Row]) -> Select[Row]:
        return select(table).where(table_of(table).c.project_id == self.project_id)


class ExperimentPartRepository(Repository):
    """Rows that belong to one experiment.

    Built with a project it reads that project's rows only, as the API must; without one it reads
    across projects, as workers and the sweeper do. Rows are written under the project they name.
    """

    def __init__(self, session: Session, project_id: str | None = None) -> None:
        super().__init__(session)
        self.project_id = project_id

    def _select(self, table: type[Row], experiment_id: str) -> Select[Row]:
        columns = table_of(table).c
        statement = select(table).where(columns.experiment_id == experiment_id)
        if self.project_id is not None:
            statement = statement.where(columns.project_id == self.project_id)
        return statement


def table_of(table: type[Base]) -> Table:
    """The Core table behind a mapped class."""
    return cast(Table, inspect(table).local_table)


def _insert_on(table: type[Base], dialect: str) -> postgresql.Insert | sqlite.Insert:
    """An insert that knows `ON CONFLICT`, which each database has of its own."""
    if dialect == "postgresql":
        return postgresql.insert(table_of(table))
    return sqlite.insert(table_of(table))


@cache
def _upsert(
    table: type[Base], dialect: str, names: tuple[str, ...]
) -> postgresql.Insert | sqlite.Insert:
    """Kept, because every flush uses it and building it costs more than running it."""
    keys = [column.name for column in table_of(table).primary_key]
    statement = _insert_on(table, dialect)
    changed = {name: statement.excluded[name] for name in names if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)
