"""Tables as Parquet files, sent while they are read.

Imported only when such a file is requested, because pyarrow takes long to load.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel

from api.schemas.experiment_tables import FairnessLine, LedgerLine, RoundBody
from fedaudit.ledger.bundle import Sink
from fedaudit.ledger.columns import LedgerColumns

Block = LedgerColumns | Sequence[Mapping[str, Any]]
"""Some lines, one by one or column by column."""
_TEXT = pa.string()
_PLAIN = {str: _TEXT, int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


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
    "privacy-ledger": pa.schema(_fields(LedgerLine)),
    "rounds": pa.schema(_fields(RoundBody)),
    "fairness": pa.schema(_fields(FairnessLine) | {"interval": _BOUNDS}),
}
"""The columns of each table and their types."""


def parquet(blocks: Iterable[Block], *, what: str) -> Iterator[bytes]:
    """The bytes of a file of these lines, row group by row group as the blocks come."""
    sink = Sink()
    with pq.ParquetWriter(sink, SCHEMAS[what]) as writer:
        for block in blocks:
            writer.write_table(_table(block, SCHEMAS[what]))
            yield sink.take()
    yield sink.take()


def _table(block: Block, schema: pa.Schema) -> pa.Table:
    """The lines as a table; a missing value, or a figure that is not finite, is null. The lines of
    a ledger are many, and are never made one by one."""
    if isinstance(block, LedgerColumns):
        columns = [_array(block.columns[name]) for name in schema.names]
        return pa.Table.from_arrays(columns, schema=schema)
    return pa.Table.from_pylist([dict(line) for line in block], schema=schema)


def _array(column: NDArray[Any]) -> pa.Array:
    if column.dtype == object:
        return pa.array(column, _TEXT)
    return pa.array(column, mask=~np.isfinite(column))
