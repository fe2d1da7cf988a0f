"""A CSV file, read as a stream of batches of text."""

import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv

from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.spec.errors import InvalidInputError

_BLOCK = 2**20  # maximum length of a row; the reader holds about forty of them
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_ROW = re.compile(r"Row #(\d+):")
_PARSE = pyarrow.csv.ParseOptions(newlines_in_values=True)
_QUOTE = ord('"')
_FAULTS = (pa.ArrowException, UnicodeDecodeError, OSError)


class CsvFile:
    """A CSV file in UTF-8 whose first block has been read: `names`, then `batches`.

    A cell stays text until a number is requested, so that a ZIP code keeps its zeros and an error
    can name the row. Raises InvalidInputError at the file's pointer.
    """

    def __init__(self, source: SourceFile, *, header: bool) -> None:
        """`header`: whether the first line names the columns; else they are column_1 and so on."""
        self._source = source
        self._header = header
        self.rows = None
        """Known only after the file has been read."""
        # The reader itself splits the header, so that both readings agree on quotes.
        with source.open() as stream, self._reader(_Text(stream, source)) as reader:
            try:
                self._fields: list[str] = reader.schema.names
            except UnicodeDecodeError as error:
                raise self._unreadable(error) from None
        self.names = (
            self._fields
            if header
            else [f"column_{place + 1}" for place in range(len(self._fields))]
        )

    def batches(self, columns: Sequence[int]) -> Iterator[Any]:
        """Record batches of some columns (by position), each as text; memory for a few blocks
        only."""
        with self._source.open() as stream:
            text = _Text(stream, self._source)
            with self._reader(text, columns) as reader:
                yield from self._read(reader)
        if text.quotes % 2:
            self._check_last_quote()

    def _reader(self, text: "_Text", columns: Sequence[int] = ()) -> Any:
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
        try:
            return pyarrow.csv.open_csv(cast(Any, text), read, _PARSE, convert)
        except _FAULTS as error:
            raise self._unreadable(error) from None

    def _read(self, reader: Any) -> Iterator[Any]:
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except _FAULTS as error:
                raise self._unreadable(error) from None
            yield batch

    def _check_last_quote(self) -> None:
        """An unclosed quote at the end, which swallowed the rest of the file into the last cell.

        The reader does not report this. An odd number of quotes alone is no proof: a quote may
        stand within an unquoted cell.
        """
        last = ""
        with self._source.open() as stream:
            reader = self._reader(_Text(stream, self._source), [len(self._fields) - 1])
            with reader:
                for batch in self._read(reader):
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
                f"has {found} cells in data row {self._data_row(row)} and {expected} in {whole}; "
                "correct the row, or quote cells that contain commas"
            )
        if isinstance(error, UnicodeDecodeError) or "UTF8" in text:
            at = _ROW.search(text)
            where = f" in data row {self._data_row(int(at[1]))}" if at else ""
            return fault(f"is not in UTF-8{where}; save it in that encoding")
        if "Empty CSV" in text:
            return fault("has no rows; name a file with a header and data")
        if "straddling" in text:
            return fault(
                f"has a row of more than {_BLOCK // 2**20} MiB, or a quote that never ends; "
                "close it"
            )
        return fault("is neither a CSV nor a Parquet file that can be read; save it anew")

    def _data_row(self, row: int) -> int:
        return row - 1 if self._header else row


class _Text(io.RawIOBase):
    """A stream for the reader that refuses NUL and counts quotes."""

    def __init__(self, stream: BinaryIO, source: SourceFile) -> None:
        self._stream = stream
        self._source = source
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = self._stream.read(size)
        if b"\0" in block:
            raise self._source.fault(
                "is a binary file or not in UTF-8; name a CSV file in UTF-8, or a Parquet file"
            )
        self.quotes += int(np.count_nonzero(np.frombuffer(block, dtype=np.uint8) == _QUOTE))
        return block
