"""Many rows of one table, converted column by column: SQLAlchemy's own way, row by row, costs as
much as the database's work. Postgres gets them by COPY, several times as fast as by inserts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from psycopg import Cursor
from psycopg.types.numeric import Int2, Int4, Int8
from sqlalchemy import BigInteger, Connection, Dialect, Double, Insert, Integer, SmallInteger, Table
from sqlalchemy.engine.default import DefaultExecutionContext
from sqlalchemy.types import TypeEngine

_FEW = 8
# COPY converts nothing: a number has to have the width of its column.
_WIDTHS: dict[type[Any], Callable[[Any], Any]] = {
    SmallInteger: Int2,
    Integer: Int4,
    BigInteger: Int8,
    Double: float,
}
_COPIED = "copied"


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert one or more rows with the same columns. Of many no column may be left out that has a
    default in Python."""
    if len(rows) < _FEW:
        connection.execute(_insert(table), rows)
        return
    dialect = connection.dialect
    # `values` is a word of SQL as well as a column.
    names = ", ".join(map(dialect.identifier_preparer.quote, rows[0]))
    columns = (_bound([row[name] for row in rows], table.c[name].type, dialect) for name in rows[0])
    if dialect.name == "postgresql":
        statement = f"COPY {table.name} ({names}) FROM STDIN (FORMAT BINARY)"
    else:
        places = ", ".join("?" for _ in rows[0])
        statement = f"INSERT INTO {table.name} ({names}) VALUES ({places})"
    options = {_COPIED: dialect.name == "postgresql"}
    connection.exec_driver_sql(statement, list(zip(*columns, strict=True)), options)


@cache
def _insert(table: Table) -> Insert:
    """Kept: to build a statement costs more than to send it."""
    return table.insert()


def _bound(values: Sequence[Any], type_: TypeEngine[Any], dialect: Dialect) -> Iterator[Any]:
    """A column's values as the driver takes them; one object in consecutive rows is converted
    once."""
    convert = type_.dialect_impl(dialect).bind_processor(dialect)
    width = _WIDTHS.get(type(type_)) if dialect.name == "postgresql" else None
    before: object = values
    bound: Any = None
    for value in values:
        if value is not before:
            before, bound = value, value if convert is None else convert(value)
            if width is not None and bound is not None:
                bound = width(bound)
        yield bound


def copy_rows(
    cursor: Cursor[Any], statement: str, rows: Sequence[Any], context: DefaultExecutionContext
) -> bool:
    """For SQLAlchemy's event `do_executemany`: whether the rows were copied."""
    if not context.execution_options.get(_COPIED):
        return False
    with cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)
    return True
