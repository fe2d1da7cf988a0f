"""Tables as Parquet files, sent while they are read.

Imported only when such a file is requested, because pyarrow takes long to load.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedaudit.ledger.columns import Column, LedgerColumns, Words

_TEXT, _INTEGER, _NUMBER = pa.string(), pa.int64(), pa.float64()
_ROWS_AT_ONCE = 10_000
"""Rows of a row group, at least; the last may have fewer."""
_FEW = 100


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(columns)


def _of(kind: pa.DataType, *names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names, kind)


SCHEMAS = {
    "ledger": _schema(
        **_of(_INTEGER, "round", "release"),
        **_of(_TEXT, "subject_kind", "subject", "observer", "component", "outcome"),
        **_of(_NUMBER, "epsilon", "delta"),
        adjacency=_TEXT,
        **_of(_NUMBER, "radius", "leakage", "leakage_total"),
        **_of(_TEXT, "guarantee", "reason"),
    ),
    "rounds": _schema(
        round=_INTEGER,
        **_of(_NUMBER, "selection_loss", "validation_loss", "accuracy"),
        cluster_sizes=pa.list_(_INTEGER),
        separation=_NUMBER,
        collapsed=pa.bool_(),
        **_of(_NUMBER, "leakage_median", "leakage_max", "epsilon_max"),
        **_of(_NUMBER, "demographic_parity_difference", "equalized_odds_difference"),
        equal_opportunity_difference=_NUMBER,
        leakage_by_cluster=pa.list_(
            pa.struct(
                _of(_INTEGER, "cluster", "clients") | _of(_NUMBER, "leakage_median", "leakage_max")
            )
        ),
        reasons=pa.map_(_TEXT, _TEXT),
    ),
    "fairness": _schema(
        round=_INTEGER,
        **_of(_TEXT, "attribute", "metric"),
        value=_NUMBER,
        reason=_TEXT,
        interval=pa.struct(_of(_NUMBER, "low", "high", "level")),
        interval_reason=_TEXT,
    ),
}
"""The columns of each table and their types."""


def from_lines(lines: Sequence[Mapping[str, Any]], *, what: str) -> pa.Table:
    """The lines as a table; a missing value is null."""
    return pa.Table.from_pylist([dict(line) for line in lines], schema=SCHEMAS[what])


class LedgerTables:
    """Makes tables of the ledger's lines, column by column."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Sequence[str | None], pa.Array]] = {}
        """By its identity, the newest list of subjects' names as a column: it may be long."""

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
    sink = _Sink()
    with pq.ParquetWriter(sink, SCHEMAS[what]) as writer:
        for table in _of_some_length(tables):
            writer.write_table(table)
            yield sink.taken()
    yield sink.taken()


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


class _Sink(io.RawIOBase):
    """A file that is read while it is written, and keeps nothing that was already read."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        # A copy: the buffer is the writer's.
        copy = bytes(data)
        self._waiting.append(copy)
        self._position += len(copy)
        return len(copy)

    def tell(self) -> int:
        return self._position

    def taken(self) -> bytes:
        """The bytes written since the last call."""
        waiting, self._waiting = self._waiting, []
        return b"".join(waiting)
