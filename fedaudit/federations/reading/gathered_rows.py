"""The rows that are kept of a table: in memory while they are few, and else in a mapped file."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedaudit.federations.reading.table_rows import TableRows

_IN_MEMORY = 64 * 2**20
"""Bytes of columns that are kept in memory."""
_FILE = "rows.arrow"


def gathered_rows(
    parts: Iterable[TableRows], folder: Path, *, in_memory: int | None = None
) -> TableRows:
    """All rows of a table's parts, of which there is at least one, with the same columns.

    More than `in_memory` bytes (64 MiB unless given) lie in a file of the folder, mapped, which has
    no name any more: their columns take no memory that the system could not take back. Raises
    OSError where the disk is full.
    """
    gathered = _Gathered(folder / _FILE, _IN_MEMORY if in_memory is None else in_memory)
    numbers: list[NDArray[np.int64]] = []
    source = None
    for part in parts:
        source = part.source
        gathered.add(pa.table(dict(part.columns)))
        numbers.append(part.row_numbers)
    if source is None:
        raise ValueError("a table has at least one part")
    table = gathered.table()
    columns = dict(zip(table.column_names, table.columns, strict=True))
    return TableRows(source, columns, np.concatenate(numbers))


class _Gathered:
    """Tables of one schema, one after the other."""

    def __init__(self, path: Path, in_memory: int) -> None:
        self._path = path
        self._in_memory = in_memory
        self._waiting: list[Any] = []
        self._size = 0
        self._writer: Any = None

    def add(self, table: Any) -> None:
        """One more."""
        self._size += table.nbytes
        self._waiting.append(table)
        if self._size > self._in_memory:
            if self._writer is None:
                self._writer = pa.ipc.new_file(str(self._path), table.schema)
            for one in self._waiting:
                self._writer.write_table(one)
            self._waiting = []

    def table(self) -> Any:
        """All of them as one."""
        if self._writer is None:
            return pa.concat_tables(self._waiting)
        self._writer.close()
        found = pa.ipc.open_file(pa.memory_map(str(self._path))).read_all()
        self._path.unlink()
        return found
