"""Rows of the service as a Parquet file, written as they come."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

Row = Mapping[str, Any]

_TEXT, _INTEGER, _NUMBER = pa.string(), pa.int64(), pa.float64()
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


def write_parquet(rows: Iterable[Row], *, what: str, file: IO[bytes]) -> None:
    """Write the rows of a table; columns that a row lacks are null."""
    schema = SCHEMAS[what]
    with pq.ParquetWriter(file, schema) as writer:
        for batch in _batches(rows):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _batches(rows: Iterable[Row]) -> Iterator[list[dict[str, Any]]]:
    waiting = iter(rows)
    while batch := [dict(row) for row in islice(waiting, _ROWS_AT_ONCE)]:
        yield batch
