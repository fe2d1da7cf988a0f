"""CSV and Parquet files as columns of text or numbers, read as streams."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from fedaudit.federations.errors import error_at, listed
from fedaudit.federations.reading.csv_file import CsvFile
from fedaudit.federations.reading.parquet_file import ParquetFile
from fedaudit.federations.reading.source_files import MAX_FILE_BYTES, SourceFile
from fedaudit.federations.reading.table_rows import TableRows

MAX_TABLE_CELLS = 20_000_000
"""Cells, rows times columns, that one experiment may read."""
MAX_COLUMNS = 10_100
MAX_ROWS = 1_000_000_000
"""Hard cap on rows; Parquet metadata is untrusted."""
_TOGETHER = 8 * 2**20


class TableReader(Protocol):
    """A file of one format whose column names have been read."""

    @property
    def names(self) -> list[str]:
        """The columns, in their order."""

    @property
    def rows(self) -> int | None:
        """The number of rows that the file declares; None where it declares none."""

    def batches(self, columns: Sequence[int]) -> Iterator[Any]:
        """Record batches of some columns (by position). Raises InvalidInputError."""


class ColumnarFormat(NamedTuple):
    """A format that names its columns itself, and is recognised by how a file starts."""

    name: str
    magic: bytes
    read: Callable[[SourceFile], TableReader]


COLUMNAR = (ColumnarFormat("Parquet", b"PAR1", ParquetFile),)
"""Any other file is read as CSV."""


class TableFile:
    """A table whose header has been read: `names`, then `read` or `batches` of some columns.

    Raises InvalidInputError at the file's pointer where it is not a usable table.
    """

    def __init__(self, source: SourceFile, *, header: bool = True) -> None:
        """`header`: whether the first line of a CSV file names its columns."""
        self.source = source
        with source.open() as stream:
            start = stream.read(max(len(one.magic) for one in COLUMNAR))
        if not start:
            raise source.fault("is empty; name a CSV file with a header, or a Parquet file")
        self._file = self._reader(start, header=header)
        self.names = tuple(name.strip() for name in self._file.names)
        """Column names without surrounding blanks."""
        self._check_header()

    @property
    def rows(self) -> int | None:
        """The number of rows that the file declares; None where it declares none."""
        return self._file.rows

    def read(self, names: Sequence[str]) -> TableRows:
        """All rows of some of the columns, at most MAX_TABLE_CELLS cells.

        Only these columns are kept in memory. Raises InvalidInputError at the file's pointer.
        """
        wanted = list(dict.fromkeys(names))
        if self._file.rows is not None:
            self._check_cells(self._file.rows, len(wanted))
        batches: list[Any] = []
        rows = size = 0
        for batch in self._batches(wanted):
            batches.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            self._check_cells(rows, len(wanted), more=True)
            if size > MAX_FILE_BYTES:
                raise self.source.fault(
                    f"takes more than {MAX_FILE_BYTES // 2**20} MiB in the columns wanted; use "
                    "fewer columns or rows"
                )
        table = pa.Table.from_batches(batches)
        columns = {name: table.column(place) for place, name in enumerate(wanted)}
        return TableRows(self.source, columns, np.arange(1, rows + 1, dtype=np.int64))

    def batches(self, names: Sequence[str]) -> Iterator[TableRows]:
        """The rows of some of the columns, about _TOGETHER bytes at a time."""
        wanted = list(dict.fromkeys(names))
        first = 1
        for table in _together(self._batches(wanted)):
            numbers = np.arange(first, first + table.num_rows, dtype=np.int64)
            first += table.num_rows
            yield TableRows(self.source, dict(zip(wanted, table.columns, strict=True)), numbers)

    def _batches(self, wanted: Sequence[str]) -> Iterator[Any]:
        """Non-empty record batches. Raises InvalidInputError where there are none."""
        rows = 0
        place = {name: position for position, name in enumerate(self.names)}
        for batch in self._file.batches([place[name] for name in wanted]):
            rows += batch.num_rows
            if rows > MAX_ROWS:
                raise self.source.fault(f"has more than {MAX_ROWS} rows; use fewer")
            if batch.num_rows:
                yield batch
        if rows == 0:
            raise self.source.fault("has a header but no rows; add the data")

    def _reader(self, start: bytes, *, header: bool) -> TableReader:
        for name, magic, read in COLUMNAR:
            if not start.startswith(magic):
                continue
            if self.source.compressed:
                raise self.source.fault(
                    f"is a {name} file within a gzip file; undo the gzip, {name} is compressed "
                    "itself"
                )
            if not header:
                raise error_at(
                    "/federation/header", f"a {name} file names its columns itself; leave this out"
                )
            return read(self.source)
        return CsvFile(self.source, header=header)

    def _check_header(self) -> None:
        names = self.names
        if len(names) < 2 and (mark := _other_separator(names[0])):
            raise self.source.fault(
                f"separates its columns by {mark}, and commas are read; save it with commas, or as "
                "Parquet"
            )
        if len(names) < 2:
            raise self.source.fault(
                "has a single column; separate the columns by commas, and give a client key, "
                "features and a target"
            )
        if len(names) > MAX_COLUMNS:
            raise self.source.fault(
                f"has {len(names)} columns, and {MAX_COLUMNS} are allowed; drop some"
            )
        if "" in names:
            position = names.index("") + 1
            raise self.source.fault(
                f"has no name for column {position} in its header; name that column or remove it"
            )
        if len(set(names)) < len(names):
            twice = [name for name, times in Counter(names).items() if times > 1]
            raise self.source.fault(
                f"names a column twice in its first line: {listed(twice)}; the first line must "
                "give each column a name of its own"
            )

    def _check_cells(self, rows: int, columns: int, *, more: bool = False) -> None:
        if rows * columns > MAX_TABLE_CELLS:
            raise self.source.fault(
                f"has {rows}{' or more' if more else ''} rows, which make {rows * columns} cells "
                f"of {columns} columns, and {MAX_TABLE_CELLS} are allowed; use fewer columns or "
                "rows"
            )


def _other_separator(header: str) -> str | None:
    """By what a header that is a single column separates its columns, in words."""
    words = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
    return next((words[mark] for mark in words if mark in header), None)


def _together(batches: Iterator[Any]) -> Iterator[Any]:
    """Merges several batches into one table, because work per table should cover many rows."""
    waiting: list[Any] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _TOGETHER:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
