"""What repositories share: the project they may see, and the few statements they all use."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from typing import Any, ClassVar, Generic, TypeVar, cast

from sqlalchemy import (
    ColumnElement,
    Executable,
    Result,
    Select,
    Table,
    Update,
    and_,
    delete,
    exists,
    func,
    inspect,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.sql.dml import ReturningInsert

from models.copied_rows import insert_rows
from models.tables.base import Base
from models.tables.experiments import Experiment
from models.values import Cursor, Item, Page

Row = TypeVar("Row", bound=Base)


_AS_IT_IS = {"populate_existing": True}
_PAST_OBJECTS = {"synchronize_session": False, **_AS_IT_IS}
_GATHERED = "fedaudit.gathered"
"""Where a session keeps what `gathered_writes` has gathered."""


@contextmanager
def gathered_writes(session: Session) -> Iterator[None]:
    """Collects the rows that repositories insert or put in the block, and writes them at its end,
    many per statement. They cannot be read before. For rows of several owners."""
    gathered: dict[tuple[Executable | Table, tuple[str, ...]], list[dict[str, Any]]] = {}
    session.info[_GATHERED] = gathered
    try:
        yield
    finally:
        del session.info[_GATHERED]
    for (into, _), rows in gathered.items():
        _write_rows(session, into, rows)


def _write_rows(session: Session, into: Executable | Table, rows: Sequence[dict[str, Any]]) -> None:
    if isinstance(into, Table):
        insert_rows(session.connection(), into, rows)
    else:
        session.connection().execute(into, rows)


class Repository:
    """Statements within the caller's transaction; repositories never commit."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def _set(self, table: type[Base], *conditions: ColumnElement[bool], **values: Any) -> bool:
        """Changes the rows that meet the conditions, and says whether there are any. Objects read
        before keep their old values."""
        return bool(self._set_rows(table, *conditions, **values))

    def _set_rows(self, table: type[Base], *conditions: ColumnElement[bool], **values: Any) -> int:
        """The same, and says how many there are."""
        return self._ran(update(table).where(*conditions).values(values))

    def _ran(self, changing: Update, **values: object) -> int:
        """The same of a statement; `values`: of a prepared one."""
        self.session.flush()
        return self.session.connection().execute(changing, values).rowcount

    def _returned(self, changing: Update, *columns: Any) -> Result[Any]:
        """These columns of the rows that are changed."""
        statement = changing.returning(*columns)
        return self.session.execute(statement, execution_options=_PAST_OBJECTS)

    def _delete(self, table: type[Base], *conditions: ColumnElement[bool]) -> int:
        """How many rows met the conditions; they are gone."""
        self.session.flush()
        return self.session.connection().execute(delete(table).where(*conditions)).rowcount

    def _exists(self, *conditions: ColumnElement[bool]) -> bool:
        """Whether some row meets the conditions."""
        return bool(self.session.scalar(select(exists().where(*conditions))))

    def store(self, row: Row) -> Row:
        """Inserts one row, which stays the session's."""
        self.session.add(row)
        self.session.flush()
        return row

    def next_number(self, table: type[Base], experiment_id: str) -> int:
        """The next `number` of an experiment; others wait until this transaction ends."""
        experiment = select(Experiment.id).where(Experiment.id == experiment_id)
        self.session.execute(experiment.with_for_update())
        columns = table_of(table).c
        newest = select(func.max(columns.number)).where(columns.experiment_id == experiment_id)
        return (self.session.scalar(newest) or 0) + 1

    def _insert(self, table: type[Base], rows: Sequence[dict[str, Any]]) -> None:
        """Many rows in one go, past the ORM's unit of work."""
        if rows:
            self._write(table_of(table), rows)

    def _write(self, into: Executable | Table, rows: Sequence[dict[str, Any]]) -> None:
        """`into`: a statement, or the table that gets the rows."""
        gathered = self.session.info.get(_GATHERED)
        if gathered is None:
            _write_rows(self.session, into, rows)
        else:
            # Rows of one statement have the same columns.
            for columns, alike in groupby(rows, tuple):
                gathered.setdefault((into, columns), []).extend(alike)

    def _insert_absent(self, table: type[Base], row: dict[str, Any], **computed: Any) -> bool:
        """Inserts unless the key exists, waiting for a concurrent insert of it. `computed`: columns
        that the database computes."""
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
        """The row as it is now, even if this session has read it before. `values`: of a prepared
        statement; preparing costs more than sending."""
        return self.session.scalars(statement, values, execution_options=_AS_IT_IS).one_or_none()

    def _all(self, statement: Select[Row], **values: object) -> list[Row]:
        """The rows as they are now; `values` as in `_one`."""
        return list(self.session.scalars(statement, values, execution_options=_AS_IT_IS))

    def _rows(self, statement: Executable, **values: object) -> Sequence[Any]:
        """Columns as they are now; `values` as in `_one`."""
        return rows_of(self.session, statement, **values)

    def _page(
        self,
        statement: Select[Row],
        by: InstrumentedAttribute[Any],
        cursor: Cursor | None,
        limit: int,
        *,
        ascending: bool = False,
    ) -> Page[Row]:
        """A page in the order of a unique column, whose value is the cursor."""
        if cursor is not None:
            statement = statement.where(by > cursor[0] if ascending else by < cursor[0])
        items = self._all(statement.order_by(by if ascending else by.desc()).limit(limit + 1))
        return page_of(items, limit, lambda last: (getattr(last, by.key),))


class ScopedRepository(Repository):
    """Sees the rows of one project only."""

    def __init__(self, session: Session, project_id: str) -> None:
        super().__init__(session)
        self.project_id = project_id

    def _own(self, table: type[Base]) -> ColumnElement[bool]:
        """That a row is the project's."""
        owned: ColumnElement[bool] = table_of(table).c.project_id == self.project_id
        return owned

    def _select(self, table: type[Row]) -> Select[Row]:
        return select(table).where(self._own(table))


class RowRepository(ScopedRepository, Generic[Row]):
    """Rows of one project, each found by its id."""

    _table: ClassVar[type[Any]]

    def get(self, id: str) -> Row | None:
        """The row as it is now; None if the project has none with this id."""
        return self._one(self._mine(id))

    def lock(self, id: str) -> Row | None:
        """The same, locked until the transaction ends; rows that refer to it can still be added."""
        return self._one(self._mine(id).with_for_update(key_share=True))

    def _mine(self, id: str) -> Select[Row]:
        return self._select(self._table).where(self._table.id == id)

    def _update(self, id: str, *conditions: ColumnElement[bool], **values: Any) -> bool:
        """Changes the row if it meets the conditions, and says whether it did."""
        mine = (self._table.id == id, self._own(self._table))
        return self._set(self._table, *mine, *conditions, **values)


class PartRepository(Repository):
    """Rows of one owner, such as an experiment. With a project it reads and writes only that
    project's rows, as the API must; without, it reads all projects', as workers do."""

    _owner: ClassVar[str]
    """The column that names the owner."""

    def __init__(self, session: Session, project_id: str | None = None) -> None:
        super().__init__(session)
        self.project_id = project_id

    def _select(self, table: type[Base], owner_id: str, *names: str) -> Select[Any]:
        """The owner's rows; by columns where these are named."""
        columns = table_of(table).c
        chosen: list[Any] = [columns[name] for name in names] or [table]
        statement = select(*chosen).where(columns[self._owner] == owner_id)
        if self.project_id is not None:
            statement = statement.where(columns.project_id == self.project_id)
        return statement

    def _owned(self, owner_id: str, **values: Any) -> dict[str, Any]:
        """The columns of a new row of the owner."""
        assert self.project_id is not None
        return {self._owner: owner_id, "project_id": self.project_id, **values}


class ExperimentPartRepository(PartRepository):
    """Rows that belong to one experiment."""

    _owner = "experiment_id"


def page_of(items: list[Item], limit: int, cursor_of: Callable[[Item], Cursor]) -> Page[Item]:
    """At most `limit` of the items, of which one more shows that there is a next page."""
    return Page(items[:limit], cursor_of(items[limit - 1]) if len(items) > limit else None)


def ordered(
    statement: Select[Any],
    column: ColumnElement[Any],
    identifier: ColumnElement[str],
    *,
    descending: bool,
    cursor: Cursor | None,
) -> Select[Any]:
    """The statement ordered by a column, ties by id, nulls last, beginning behind a cursor: (value,
    id) or (id,). Raises ValueError for another sort's cursor."""
    if cursor is not None:
        if len(cursor) != (1 if column is identifier else 2):
            raise ValueError("cursor: it belongs to another sort; begin again without one")
        value, last_id = cursor[0], cursor[-1]
        later: ColumnElement[bool] = identifier < last_id if descending else identifier > last_id
        if column is not identifier and value is None:
            later = and_(column.is_(None), later)
        elif column is not identifier:
            beyond = column < value if descending else column > value
            later = or_(beyond, and_(column == value, later), column.is_(None))
        statement = statement.where(later)
    order: list[ColumnElement[Any]] = [identifier.desc() if descending else identifier.asc()]
    if column is not identifier:
        order = [column.is_(None), column.desc() if descending else column.asc(), *order]
    return statement.order_by(*order)


def rows_of(session: Session, statement: Executable, **values: object) -> Sequence[Any]:
    """What a statement finds with these values, after what the session has still to write: of
    columns of tables, SQLAlchemy would not write it first."""
    session.flush()
    return session.connection().execute(statement, values).all()


def table_of(table: type[Base]) -> Table:
    """The Core table behind a mapped class."""
    return cast(Table, inspect(table).local_table)


def _insert_on(table: type[Base], dialect: str) -> postgresql.Insert | sqlite.Insert:
    """An insert with `ON CONFLICT`, whose construct differs by database."""
    if dialect == "postgresql":
        return postgresql.insert(table_of(table))
    return sqlite.insert(table_of(table))


@cache
def _absent_insert(table: type[Base], dialect: str) -> ReturningInsert[Any]:
    """Gives the key where there was none."""
    statement = _insert_on(table, dialect).on_conflict_do_nothing()
    return statement.returning(*table_of(table).primary_key.columns)


@cache
def _upsert(
    table: type[Base], dialect: str, names: tuple[str, ...]
) -> postgresql.Insert | sqlite.Insert:
    """Kept, because every flush uses it and building it costs more than running it."""
    keys = [column.name for column in table_of(table).primary_key]
    statement = _insert_on(table, dialect)
    changed = {name: statement.excluded[name] for name in names if name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)
