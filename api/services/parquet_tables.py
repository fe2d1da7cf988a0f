"""Tables as Parquet files, sent while they are read.

Imported only when such a file is requested, because pyarrow takes long to load.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel

from api.schemas.experiment_tables import FairnessLine, LedgerLine, RoundBody
from fedaudit.ledger.bundle import Sink
from fedaudit.ledger.columns import Column, LedgerColumns, Words

_TEXT = pa.string()
_PLAIN = {str: _TEXT, int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_ROWS_AT_ONCE = 10_000
"""Rows of a row group, at least; the last may have fewer."""
_FEW = 100


def _type_of(annotation: Any) -> pa.DataType:
    """The type of a body's field; null is allowed everywhere."""
    kind, parts = get_origin(annotation), get_args(annotation)
    if kind is Literal:
        return _TEXT
    if kind is dict:
        return pa.map_(_TEXT, _TEXT)
    if parts:
        first = _type_of(parts[0])
        return pa.list_(first) if kind is list else first
    return _PLAIN.get(annotation) or pa.struct(_fields(annotation))


def _fields(body: type[BaseModel]) -> dict[str, pa.DataType]:
    return {name: _type_of(field.annotation) for name, field in body.model_fields.items()}


_BOUNDS = pa.struct(dict.fromkeys(("low", "high", "level"), pa.float64()))
SCHEMAS = {
    "ledger": pa.schema(_fields(LedgerLine)),
    "rounds": pa.schema(_fields(RoundBody)),
    "fairness": pa.schema(_fields(FairnessLine) | {"interval": _BOUNDS}),
}
"""The columns of each table and their types."""


def from_lines(lines: Sequence[Mapping[str, Any]], *, what: str) -> pa.Table:
    """The lines as a table; a missing value is null."""
    return pa.Table.from_pylist([dict(line) for line in lines], schema=SCHEMAS[what])


class LedgerTables:
    """Makes tables of the ledger's lines, column by column."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Sequence[str | None], pa.Array]] = {}
        """The newest list of subjects' names as a column, by its identity: it may be long."""

    def table(self, found: LedgerColumns) -> pa.Table:
        """The lines as a table; a figure that is not finite is null."""
        schema = SCHEMAS["ledger"]
        columns = [self._column(found.columns[name]) for name in schema.names]
        return pa.Table.from_arrays(columns, schema=schema)

    def _column(self, column: Column) -> pa.Array:
        if isinstance(column, Words):
            return self._texts_of(column.texts).take(pa.array(column.codes))
        if column.dtype.kind == "f":
            return pa.array(column, mask=~np.isfinite(column))
        return pa.array(column)

    def _texts_of(self, texts: Sequence[str | None]) -> pa.Array:
        if len(texts) < _FEW:
            return pa.array(texts, _TEXT)
        kept = self._texts.get(id(texts))
        if kept is None:
            kept = (texts, pa.array(texts, _TEXT))
            self._texts = {id(texts): kept}
        return kept[1]


def parquet(tables: Iterable[pa.Table], *, what: str) -> Iterator[bytes]:
    """The bytes of a file of these tables, row group by row group as they come."""
    sink = Sink()
    with pq.ParquetWriter(sink, SCHEMAS[what]) as writer:
        for table in _of_some_length(tables):
            writer.write_table(table)
            yield sink.take()
    yield sink.take()


def _of_some_length(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Short ones are put together, so that a file does not have many small row groups."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= _ROWS_AT_ONCE:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
