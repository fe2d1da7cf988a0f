"""Tables, of which CSV files are read here, as columns of text or numbers, read as streams.

Files that name and type their columns themselves, read as streams: Parquet.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from fedaudit.federations.reading.source_files import MAX_FILE_BYTES, SourceFile
from fedaudit.federations.reading.table_rows import TableRows, is_text
from fedaudit.spec.errors import InvalidInputError, error_at, listed
from fedaudit.spec.labels import number_in
from fedaudit.spec.table import TABLE_FORMATS

UNREADABLE = f"is no {TABLE_FORMATS} file that can be read; save it anew"
_BATCH_ROWS = 2**16
_BATCH_CELLS = 2**20
_MAX_CELL_LENGTH = 4096
_SHOWN_TYPE = 60  # characters of a nested type's name
_PARQUET = b"PAR1"
"""How every Parquet file starts; any other file is read as CSV."""
_ARCHIVES = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
"""How files of Excel start, the first as other archives do."""
_FAULTS = (pa.ArrowException, UnicodeDecodeError, OSError, KeyError)


class ParquetFile:
    """A Parquet file whose footer has been read: `names`, `rows`, then `batches`.

    Raises InvalidInputError at the file's pointer.
    """

    note: str | None = None

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        with source.open() as stream, self._faults():
            file = pyarrow.parquet.ParquetFile(stream)
            self._schema, self.rows = file.schema_arrow, file.metadata.num_rows
        self.names: list[str] = self._schema.names

    def batches(self, columns: Sequence[int]) -> Iterator[Any]:
        """Record batches of some columns (by position), without dictionary encoding.

        Raises InvalidInputError for a nested column and for very long cells, too.
        """
        for column in columns:
            kind = self._schema.field(column).type
            if pa.types.is_nested(kind):
                shown = str(kind)[:_SHOWN_TYPE] + "..." * (len(str(kind)) > _SHOWN_TYPE)
                raise self._source.fault(
                    f"has a nested column {self.names[column].strip()!r} of type {shown}; store "
                    "it as columns of text or numbers, or leave it out"
                )
        names = [self.names[column] for column in columns]
        texts = [name for name in names if _is_bytes(self._schema.field(name).type)]
        with self._source.open() as stream:
            rows = max(1, min(_BATCH_ROWS, _BATCH_CELLS // max(1, len(names))))
            with self._faults():
                # A long text that repeats takes no memory per row by its dictionary. Buffered
                # ahead, the columns of the whole file would be in memory.
                file = pyarrow.parquet.ParquetFile(stream, read_dictionary=texts, pre_buffer=False)
                read = file.iter_batches(rows, columns=names, use_threads=False)
            first = 1
            while True:
                with self._faults():
                    if (batch := next(read, None)) is None:
                        return
                    batch.validate(full=True)  # no format promises that its text is UTF-8
                    self._check_cells(batch, first)
                    plain = [
                        one.dictionary_decode() if pa.types.is_dictionary(one.type) else one
                        for one in batch.select(names).columns
                    ]
                first += batch.num_rows
                yield pa.RecordBatch.from_arrays(plain, names=names)

    def _check_cells(self, batch: Any, first: int) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not (pa.types.is_dictionary(column.type) and _is_bytes(column.type.value_type)):
                continue
            lengths = pc.binary_length(column.dictionary)
            if (pc.max(lengths).as_py() or 0) <= _MAX_CELL_LENGTH:
                continue
            long = pc.greater(pc.take(lengths, column.indices), _MAX_CELL_LENGTH)
            if (place := pc.index(long, pa.scalar(True)).as_py()) >= 0:
                raise self._source.fault(
                    f"has more than {_MAX_CELL_LENGTH} bytes in row {first + place} of column "
                    f"{name.strip()!r}; shorten it or leave the column out"
                )

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except _FAULTS:
            raise self._source.fault(UNREADABLE) from None


def _is_bytes(kind: Any) -> bool:
    return is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


_BLOCK = 2**20  # maximum length of a row; the reader holds about forty of them
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_ROW = re.compile(r"Row #(\d+):")
_SEPARATORS = (",", ";", "\t")
"""The first that parts the first line; a file that has commas there is read as ever."""
_NOTES = {
    ";": "columns are separated by semicolons; a comma between digits is read as a decimal point",
    "\t": "columns are separated by tabs",
}
_DECIMAL_COMMA = r"^(\s*[+-]?\d+),(\d+\s*)$"
_BLOCKS_AHEAD = 4
"""More of them than the reader reads before it names the columns."""
_CSV_FAULTS = (pa.ArrowException, UnicodeDecodeError, OSError)


class CsvFile:
    """A CSV file in UTF-8 whose first block has been read: `names`, then `batches`.

    A cell stays text until a number is requested, so that a ZIP code keeps its zeros and an error
    can name the row. Where semicolons part the columns, as spreadsheets write them in much of
    Europe, a comma between digits is a decimal point. Raises InvalidInputError at the file's
    pointer.
    """

    def __init__(self, source: SourceFile, *, header: bool) -> None:
        """`header`: whether the first line names the columns; else they are column_1 and so on."""
        self._source = source
        self._header = header
        self.rows: int | None = None
        """Known only after the file has been read."""
        self._separator = ","
        if header:  # No cell decides how the others are read.
            with source.open() as stream:
                self._separator = _separator_of(stream.readline(_BLOCK))
        with source.open() as stream:
            _count_quotes(stream, source, most=_BLOCKS_AHEAD)
        self.note = _NOTES.get(self._separator)
        # The reader itself splits the header, so that both readings agree on quotes.
        with self._reader() as reader:
            try:
                self._fields: list[str] = reader.schema.names
            except UnicodeDecodeError as error:
                raise self._unreadable(error) from None
        numbered = [f"column_{place + 1}" for place in range(len(self._fields))]
        self.names = self._fields if header else numbered

    def batches(self, columns: Sequence[int]) -> Iterator[Any]:
        """Record batches of some columns (by position), each as text; memory for a few blocks
        only."""
        with self._source.open() as stream:
            quotes = _count_quotes(stream, self._source)
        yield from self._rows(columns)
        if quotes % 2:
            self._check_last_quote()

    def _reader(self, columns: Sequence[int] = ()) -> Any:
        names = [self._fields[column] for column in columns]
        convert = pyarrow.csv.ConvertOptions(
            include_columns=names,
            column_types={name: pa.string() for name in names},
            strings_can_be_null=False,
        )
        # One thread, because only then do the reader's errors number the rows.
        read = pyarrow.csv.ReadOptions(
            use_threads=False, block_size=_BLOCK, autogenerate_column_names=not self._header
        )
        parse = pyarrow.csv.ParseOptions(delimiter=self._separator, newlines_in_values=True)
        try:
            # The reader reads ahead in a thread that Python does not know. A Python stream that it
            # called there could end the process, so it opens the file itself.
            file: Any = pa.OSFile(self._source.same_file)
            if self._source.compressed:
                file = pa.CompressedInputStream(file, "gzip")
            return pyarrow.csv.open_csv(file, read, parse, convert)
        except _CSV_FAULTS as error:
            raise self._unreadable(error) from None

    def _rows(self, columns: Sequence[int]) -> Iterator[Any]:
        with self._reader(columns) as reader:
            while True:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except _CSV_FAULTS as error:
                    raise self._unreadable(error) from None
                if self._separator == ";":  # commas in numbers are decimal
                    cells = [
                        pc.replace_substring_regex(one, _DECIMAL_COMMA, r"\1.\2")
                        for one in batch.columns
                    ]
                    batch = pa.RecordBatch.from_arrays(cells, names=batch.schema.names)
                yield batch

    def _check_last_quote(self) -> None:
        """An unclosed quote at the end, which swallowed the rest of the file into the last cell.

        The reader does not report this. An odd number of quotes alone is no proof: a quote may
        stand within an unquoted cell.
        """
        last = ""
        for batch in self._rows([len(self._fields) - 1]):
            if batch.num_rows:
                last = batch.column(0)[-1].as_py()
        if "\n" in last or "\r" in last:
            raise self._source.fault("has a quote that never ends, in its last row; close it")

    def _unreadable(self, error: Exception) -> InvalidInputError:
        """The reader's message, without the cells that it quotes."""
        text, fault = str(error), self._source.fault
        if ragged := _RAGGED.search(text):
            row, expected, found = map(int, ragged.groups())
            whole = "its header" if self._header else "its first row"
            return fault(
                f"has {found} cells in data row {row - self._header} and {expected} in {whole}; "
                "correct the row, or quote cells that contain what separates columns"
            )
        if isinstance(error, UnicodeDecodeError) or "UTF8" in text:
            at = _ROW.search(text)
            where = f" in data row {int(at[1]) - self._header}" if at else ""
            return fault(f"is not in UTF-8{where}; save it in that encoding")
        if "Empty CSV" in text:
            return fault("has no rows; name a file with a header and data")
        if "straddling" in text:
            return fault(
                f"has a row of more than {_BLOCK // 2**20} MiB, or a quote that never ends; "
                "close it"
            )
        if "zlib inflate" in text:
            return fault("is a gzip file with something behind its end; compress it again")
        return fault(UNREADABLE)


def _separator_of(line: bytes) -> str:
    """What parts the columns of the header, which ends with the line's first CR or LF."""
    text = re.split(rb"[\r\n]", line, maxsplit=1)[0].decode("utf-8", errors="replace")
    if max(map(text.count, _SEPARATORS[1:])) == 0 or len(text) > csv.field_size_limit():
        return ","
    try:
        parts = {one: len(next(csv.reader([text], delimiter=one), [])) for one in _SEPARATORS}
    except csv.Error:
        return ","
    return next((one for one, cells in parts.items() if cells > 1), ",")


def _count_quotes(stream: BinaryIO, source: SourceFile, *, most: int | None = None) -> int:
    """How many quotes are left in a stream, or in its next `most` blocks.

    Raises InvalidInputError for NUL.
    """
    quotes = 0
    for _ in count() if most is None else range(most):
        if not (block := stream.read(_BLOCK)):
            break
        if b"\0" in block:
            raise source.fault(
                f"is a binary file or not in UTF-8; name a {TABLE_FORMATS} file with text in UTF-8"
            )
        quotes += block.count(b'"')
    return quotes


MAX_TABLE_CELLS = 20_000_000
"""Cells, rows times columns, that one experiment may read."""
MAX_COLUMNS = 10_100
MAX_ROWS = 1_000_000_000
"""Hard cap on rows; Parquet metadata is untrusted."""
_TOGETHER = 8 * 2**20


class TableFile:
    """A table whose header has been read: `names`, then `read` or `batches` of some columns.

    Raises InvalidInputError at the file's pointer where it is not a usable table.
    """

    def __init__(self, source: SourceFile, *, header: bool = True) -> None:
        """`header`: whether the first line of a CSV file names its columns."""
        self.source = source
        with source.open() as stream:
            start = stream.read(len(_PARQUET))
        if not start:
            raise source.fault(f"is empty; name a {TABLE_FORMATS} file that names its columns")
        self._file = self._reader(start, header=header)
        self.names = tuple(name.strip() for name in self._file.names)
        """Column names without surrounding blanks."""
        self.rows, self.note = self._file.rows, self._file.note
        """How many rows the file declares, if it does; how it is read, for people."""
        self._check_header()

    def read(self, names: Sequence[str]) -> TableRows:
        """All rows of some of the columns, at most MAX_TABLE_CELLS cells.

        Only these columns are kept in memory. Raises InvalidInputError at the file's pointer.
        """
        wanted = list(dict.fromkeys(names))
        if self.rows is not None:
            self._check_cells(self.rows, len(wanted))
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
        """The rows of some of the columns, about 8 MiB at a time."""
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

    def _reader(self, start: bytes, *, header: bool) -> CsvFile | ParquetFile:
        if start in _ARCHIVES:
            raise self.source.fault(
                "is an Excel file or an archive; save a sheet as CSV or Parquet (images, as .npz, "
                "are registered by hand: docs/data.md, Images and handwriting)"
            )
        if start != _PARQUET:
            return CsvFile(self.source, header=header)
        if self.source.compressed:
            raise self.source.fault(
                "is a Parquet file within a gzip file; undo the gzip, Parquet is compressed itself"
            )
        if not header:
            raise error_at(
                "/federation/header", "a Parquet file names its columns itself; leave this out"
            )
        return ParquetFile(self.source)

    def _check_header(self) -> None:
        names = self.names
        if len(names) < 2:
            raise self.source.fault(
                "has a single column; separate the columns by commas, semicolons or tabs, and give "
                "a client key, features and a target"
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
            values = any(number_in(name) is not None for name in twice)
            no_header = ", and a file without such a line needs `header: false`" * values
            raise self.source.fault(
                f"names a column twice in its first line: {listed(twice)}; the first line must "
                f"give each column a different name{no_header}{' (scaffold: --no-header)' * values}"
            )

    def _check_cells(self, rows: int, columns: int, *, more: bool = False) -> None:
        if rows * columns > MAX_TABLE_CELLS:
            raise self.source.fault(
                f"has {rows}{' or more' if more else ''} rows, which make {rows * columns} cells "
                f"of {columns} columns, and {MAX_TABLE_CELLS} are allowed; use fewer columns or "
                "rows"
            )


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
