"""The smallest hashes of a table's rows: what two tables with mostly the same rows agree on."""

import hashlib
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows

_BETWEEN_CELLS = "\x1f"
_HASH_BYTES = 8


def smallest_row_hashes(
    file: SourceFile, *, header: bool, keep: int, progress: Callable[[], None]
) -> NDArray[np.int64]:
    """The `keep` smallest distinct hashes of the rows, ascending, from 0 to 2^63 - 1.

    A row is its cells as trimmed text, in the order of the columns' names, whatever their order in
    the file; columns of other types than texts and numbers are left out. `progress` is called after
    every batch of rows. Raises InvalidInputError where the file is no table.
    """
    table = TableFile(file, header=header)
    names = sorted(table.names)
    smallest = np.empty(0, np.int64)
    for rows in table.batches(names):
        found = np.fromiter(_hashes(rows, names), np.int64)
        smallest = np.union1d(smallest, found)[:keep]
        progress()
    return smallest


def _hashes(rows: TableRows, names: list[str]) -> Iterator[int]:
    comparable = [name for name in names if _is_comparable(rows.columns[name].type)]
    cells = [rows.text(name, "/federation/path") for name in comparable]
    if not cells:
        return
    joined = pc.binary_join_element_wise(*cells, _BETWEEN_CELLS)
    for row in pc.unique(joined).to_pylist():
        digest = hashlib.blake2b(row.encode(), digest_size=_HASH_BYTES).digest()
        yield int.from_bytes(digest, "big") >> 1


def _is_comparable(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(
        is_.is_string(kind)
        or is_.is_large_string(kind)
        or is_.is_string_view(kind)
        or is_.is_integer(kind)
        or is_.is_floating(kind)
        or is_.is_boolean(kind)
        or is_.is_decimal(kind)
    )
