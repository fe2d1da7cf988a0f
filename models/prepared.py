"""Statements that are worked out once, and then sent by the driver's own cursor.

SQLAlchemy takes three to five times as long to send a statement as psycopg or sqlite3 do, however
often it has sent the same one: these are for what every submission sends. Connections,
transactions, types and errors are SQLAlchemy's all the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, NoReturn, TypeVar

from sqlalchemy import BindParameter, Connection, Delete, Dialect, Insert, Select, Update, inspect
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.orm import Session
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import ReturningInsert
from sqlalchemy.sql.visitors import iterate
from sqlalchemy.types import TypeEngine

from models.tables.base import Base

Row = TypeVar("Row", bound=Base)
Statement = Select[*tuple[Any, ...]] | Insert | ReturningInsert[Any] | Update | Delete
_Processor = Callable[[Any], Any] | None

_MOST_FORMS = 64
"""Of one statement; there is one for each length of its lists."""


class Prepared:
    """A statement with named values; one that is `expanding` takes a list, as `IN` has it.

    It knows nothing of a session's objects: it reads past those that were read before.
    """

    def __init__(self, statement: Statement, *, columns: Sequence[str] | None = None) -> None:
        """`columns`: those that an insert is given values of; of other statements None."""
        self._statement = statement
        self._columns = None if columns is None else list(columns)
        self._lists = [
            str(one.key)
            for one in iterate(statement)
            if isinstance(one, BindParameter) and one.expanding and one.required
        ]
        self._form = lru_cache(_MOST_FORMS)(self._worked_out)

    def rows(self, session: Session, **values: Any) -> list[tuple[Any, ...]]:
        """What it finds, or returns of what it inserts."""
        connection, form = self._on(session, values)
        cursor = connection.connection.cursor()
        try:
            _tell(connection, cursor, form)
            cursor.execute(form.text, form.bound(values))
            found = cursor.fetchall()
        except connection.dialect.loaded_dbapi.Error as error:
            _raise(connection, form, error)
        if form.readings is None:
            form.readings = _readings(self._statement, connection.dialect, cursor.description)
        cursor.close()
        return form.read(found)

    def run(self, session: Session, rows: Sequence[Mapping[str, Any]]) -> int:
        """Sends it with each of these values; how many rows it changed in all."""
        connection, form = self._on(session, rows[0])
        cursor = connection.connection.cursor()
        try:
            _tell(connection, cursor, form)
            if len(rows) == 1:
                cursor.execute(form.text, form.bound(rows[0]))
            else:
                cursor.executemany(form.text, [form.bound(row) for row in rows])
            changed: int = cursor.rowcount
        except connection.dialect.loaded_dbapi.Error as error:
            _raise(connection, form, error)
        cursor.close()
        return changed

    def _on(self, session: Session, values: Mapping[str, Any]) -> tuple[Connection, "_Form"]:
        session.flush()
        connection = session.connection()
        sizes = tuple(len(values[name]) for name in self._lists)
        return connection, self._form(connection.dialect, sizes)

    def _worked_out(self, dialect: Dialect, sizes: tuple[int, ...]) -> "_Form":
        compiled = self._statement.compile(
            dialect=dialect, column_keys=self._columns, for_executemany=True
        )
        assert isinstance(compiled, SQLCompiler)
        named = {name: bind for bind, name in compiled.bind_names.items()}
        blank: dict[str, Any] = {name: None for name, bind in named.items() if bind.required}
        blank |= {name: [None] * size for name, size in zip(self._lists, sizes, strict=True)}
        expanded = compiled.construct_expanded_state(blank)
        given = []
        fixed = dict(expanded.parameters)
        for name, bind in named.items():
            processor = _binding(bind.type, dialect)
            places = expanded.parameter_expansion.get(name)
            if bind.required:
                given.append((name, places, processor))
            elif processor is not None:
                for place in places or [name]:
                    fixed[place] = processor(fixed[place])
        return _Form(
            expanded.statement,
            fixed,
            given,
            None if expanded.positiontup is None else tuple(expanded.positiontup),
        )


class PreparedRows(Generic[Row]):
    """A statement that selects whole rows, as objects that belong to no session."""

    def __init__(self, statement: Select[Row]) -> None:
        self._prepared = Prepared(statement)
        entity = statement.column_descriptions[0]["entity"]
        self._manager = inspect(entity).class_manager
        self._names = [str(column.key) for column in statement.exported_columns]

    def all(self, session: Session, **values: Any) -> list[Row]:
        """The rows as they are now, also where this session has read them before."""
        return [self._made(row) for row in self._prepared.rows(session, **values)]

    def one(self, session: Session, **values: Any) -> Row | None:
        """The only row there can be; None where there is none."""
        found = self.all(session, **values)
        return found[0] if found else None

    def _made(self, row: tuple[Any, ...]) -> Row:
        made: Row = self._manager.new_instance()
        # As they are loaded: set one by one, each would count as a change.
        vars(made).update(zip(self._names, row, strict=True))
        return made


@dataclass(slots=True)
class _Form:
    """A statement as one database takes it, with lists of certain lengths."""

    text: str
    fixed: Mapping[str, Any]
    """Values that the statement has itself."""
    given: Sequence[tuple[str, Sequence[str] | None, _Processor]]
    """The others: name, the places of a list, and how each is bound."""
    order: tuple[str, ...] | None
    """Of values that have places instead of names."""
    readings: Sequence[_Processor] | None = None
    """How each column is read, once rows were seen; empty where all come as they are."""

    def bound(self, values: Mapping[str, Any]) -> Any:
        """The values as the driver takes them."""
        bound = dict(self.fixed)
        for name, places, processor in self.given:
            value = values[name]
            if places is None:
                bound[name] = value if processor is None else processor(value)
            else:
                bound |= zip(places, map(processor, value) if processor else value, strict=True)
        return bound if self.order is None else tuple([bound[name] for name in self.order])

    def read(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Rows as the columns' types have them."""
        readings = self.readings
        if not readings:
            return list(rows)
        return [
            tuple([read(value) if read else value for value, read in zip(row, readings)])  # noqa: B905
            for row in rows
        ]


def _readings(
    statement: Statement, dialect: Dialect, description: Sequence[Any]
) -> list[_Processor]:
    """`description`: what the driver says of the columns (PEP 249)."""
    if not isinstance(statement, Select | ReturningInsert):
        return []
    readings: list[_Processor] = [
        column.type.dialect_impl(dialect).result_processor(dialect, described[1])
        for column, described in zip(statement.exported_columns, description, strict=True)
    ]
    return readings if any(readings) else []


def _binding(type_: TypeEngine[Any], dialect: Dialect) -> _Processor:
    return type_.dialect_impl(dialect).bind_processor(dialect)


def _tell(connection: Connection, cursor: DBAPICursor, form: _Form) -> None:
    """Whoever listens to what SQLAlchemy sends hears of these as well; without their values."""
    for listener in connection.dispatch.before_cursor_execute:
        listener(connection, cursor, form.text, None, None, False)


def _raise(connection: Connection, form: _Form, error: Exception) -> NoReturn:
    """As SQLAlchemy raises what a driver does: told apart, and the connection given up if gone."""
    connection._handle_dbapi_exception(error, form.text, None, None, None)
