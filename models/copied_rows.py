"""Many rows of one table, converted column by column: SQLAlchemy's own way, row by row, costs as
much as the database's work. Postgres gets them by COPY, several times as fast as by inserts."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from psycopg import Copy, Cursor
from psycopg.abc import Buffer
from psycopg.copy import Writer
from sqlalchemy import Connection, Dialect, Insert, Table
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.types import TypeEngine

_FEW = 8
_COPIED = "copied"


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert one or more rows with the same columns. Of many no column may be left out that has a
    default in Python."""
    if len(rows) < _FEW:
        connection.execute(_insert(table), rows)
        return
    dialect = connection.dialect
    types = {name: table.c[name].type for name in rows[0]}
    columns = (_bound([row[name] for row in rows], types[name], dialect) for name in types)
    # `values` is a word of SQL as well as a column.
    names = ", ".join(map(dialect.identifier_preparer.quote, types))
    copied: list[str] = []
    if dialect.name == "postgresql":
        statement = f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)"
        # COPY converts nothing: a number has to have the width of its column.
        copied = [type_.compile(dialect).lower().partition("(")[0] for type_ in types.values()]
    else:
        places = ", ".join("?" for _ in types)
        statement = f"INSERT INTO {table.name} ({names}) VALUES ({places})"
    connection.exec_driver_sql(statement, list(zip(*columns, strict=True)), {_COPIED: copied})


@cache
def _insert(table: Table) -> Insert:
    """Kept: to build a statement costs more than to send it."""
    return table.insert()


def _bound(values: list[Any], type_: TypeEngine[Any], dialect: Dialect) -> list[Any]:
    """A column's values as the driver takes them; one object in consecutive rows is converted
    once."""
    convert = type_.dialect_impl(dialect).bind_processor(dialect)
    if convert is None:
        return values
    found = []
    before: object = values
    bound: Any = None
    for value in values:
        if value is not before:
            before, bound = value, convert(value)
        found.append(bound)
    return found


def copy_rows(
    cursor: Cursor[Any], statement: str, rows: Sequence[Any], context: DefaultExecutionContext
) -> bool:
    """Whether the rows were copied, for SQLAlchemy's event `do_executemany`."""
    types = context.execution_options.get(_COPIED)
    if not types:
        return False
    # Made before Postgres waits for them: no limit of a transaction ends that, so a process that is
    # stopped meanwhile keeps its locks, and with them its unit, until it goes on or is killed.
    made = _Made()
    with Copy(cursor, binary=True, writer=made) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
    with cursor.copy(statement) as sent:
        sent.write(made.content)
    return True


class _Made(Writer):
    def __init__(self) -> None:
        self.content = bytearray()

    def write(self, data: Buffer) -> None:
        self.content += data
