"""Many rows of one table, written by Postgres' COPY: to insert them one by one costs several times
as much."""

from collections.abc import Callable, Sequence
from typing import Any

from psycopg import Cursor
from psycopg.types.numeric import Int2, Int4, Int8
from sqlalchemy import BigInteger, Double, Insert, Integer, SmallInteger
from sqlalchemy.engine.default import DefaultExecutionContext

COPIED = {"copied": True}
"""Execution options of plain inserts that may be written so."""
_FEW = 8
# COPY converts nothing: a number has to have the width of its column.
_WIDTHS: dict[type[Any], Callable[[Any], Any]] = {
    SmallInteger: Int2,
    Integer: Int4,
    BigInteger: Int8,
    Double: float,
}


def copy_rows(
    cursor: Cursor[Any],
    _statement: str,
    rows: Sequence[dict[str, Any]],
    context: DefaultExecutionContext,
) -> bool:
    """For SQLAlchemy's event `do_executemany`: whether the rows were copied."""
    if not context.execution_options.get("copied") or len(rows) < _FEW:
        return False
    inserted = context.compiled and context.compiled.statement
    assert isinstance(inserted, Insert)
    table = inserted.table
    names = list(rows[0])
    wide = [(name, _WIDTHS.get(type(table.c[name].type))) for name in names]
    with cursor.copy(f"COPY {table.name} ({', '.join(names)}) FROM STDIN (FORMAT BINARY)") as copy:
        for row in rows:
            copy.write_row(
                [
                    row[name] if width is None or row[name] is None else width(row[name])
                    for name, width in wide
                ]
            )
    return True
