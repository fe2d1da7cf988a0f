"""Tables as Parquet files, sent while they are read.

Imported only when such a file is requested, because pyarrow takes long to load.
"""

import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_TEXT, _INTEGER, _NUMBER = pa.string(), pa.int64(), pa.float64()
_POINTS = pa.list_(pa.list_(_NUMBER))
_ROWS_AT_ONCE = 10_000

SCHEMAS = {
    "ledger": pa.schema(
        {
            "round": _INTEGER,
            "release": _INTEGER,
            "subject_kind": _TEXT,
            "subject": _TEXT,
            "observer": _TEXT,
            "component": _TEXT,
            "outcome": _TEXT,
            "epsilon": _NUMBER,
            "delta": _NUMBER,
            "adjacency": _TEXT,
            "radius": _NUMBER,
            "leakage": _NUMBER,
            "leakage_total": _NUMBER,
            "guarantee": _TEXT,
            "reason": _TEXT,
        }
    ),
    "rounds": pa.schema(
        {
            "round": _INTEGER,
            "selection_loss": _NUMBER,
            "validation_loss": _NUMBER,
            "accuracy": _NUMBER,
            "cluster_sizes": pa.list_(_INTEGER),
            "separation": _NUMBER,
            "collapsed": pa.bool_(),
            "leakage_median": _NUMBER,
            "leakage_max": _NUMBER,
            "epsilon_max": _NUMBER,
            "demographic_parity_difference": _NUMBER,
            "equalized_odds_difference": _NUMBER,
            "equal_opportunity_difference": _NUMBER,
            "leakage_by_cluster": pa.list_(
                pa.struct(
                    {
                        "cluster": _INTEGER,
                        "clients": _INTEGER,
                        "leakage_median": _NUMBER,
                        "leakage_max": _NUMBER,
                    }
                )
            ),
            "plane": pa.struct(
                {"hypotheses": _POINTS, "uploads": _POINTS, "clusters": pa.list_(_INTEGER)}
            ),
            "reasons": pa.map_(_TEXT, _TEXT),
        }
    ),
    "fairness": pa.schema(
        {
            "round": _INTEGER,
            "attribute": _TEXT,
            "metric": _TEXT,
            "value": _NUMBER,
            "reason": _TEXT,
            "interval": pa.struct({"low": _NUMBER, "high": _NUMBER, "level": _NUMBER}),
            "interval_reason": _TEXT,
        }
    ),
}
"""The columns of each table and their types."""


def parquet(lines: Iterable[Mapping[str, Any]], *, what: str) -> Iterator[bytes]:
    """The bytes of a file of these lines, a row group at a time; a missing value is null."""
    schema, sink = SCHEMAS[what], _Sink()
    waiting = iter(lines)
    with pq.ParquetWriter(sink, schema) as writer:
        while batch := [dict(line) for line in islice(waiting, _ROWS_AT_ONCE)]:
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """A file that is read while it is written, and keeps nothing that was already read."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: Any) -> int:
        """Keep a copy: the buffer is the writer's."""
        copy = bytes(data)
        self._waiting.append(copy)
        self._position += len(copy)
        return len(copy)

    def tell(self) -> int:
        """Bytes written so far."""
        return self._position

    def taken(self) -> bytes:
        """The bytes written since the last call."""
        waiting, self._waiting = self._waiting, []
        return b"".join(waiting)
