"""CSV and Parquet files as columns of text or numbers.

A CSV cell stays text until somebody asks for a number, so that a ZIP code keeps its zeros and an
error can name the row.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fedaudit.federations.faults import listed
from fedaudit.federations.sources import SourceFile
from fedaudit.federations.table_rows import TableRows
from fedaudit.spec.errors import InvalidInputError

LARGEST_TABLE = 20_000_000
"""Cells, rows times columns, that one experiment may read."""
MOST_COLUMNS = 10_000
_PARQUET = b"PAR1"
_CSV_BLOCK = 8 * 2**20  # no row may be longer
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
# One thread: only then do the reader's errors number the rows.
_READ = pyarrow.csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK)
_PARSE = pyarrow.csv.ParseOptions(newlines_in_values=True)


class TableFile:
    """A table whose header has been read: `names`, then `read` for the columns wanted.

    Raises InvalidInputError at the file's pointer where it is no table that can be used.
    """

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self._parquet: Any = None
        if not source.data:
            raise source.fault("is empty; name a CSV file with a header, or a Parquet file")
        packed = source.data.startswith(_PARQUET)
        header = self._open_parquet() if packed else self._csv_header()
        self._header = dict(zip((name.strip() for name in header), header, strict=True))
        self.names = tuple(self._header)
        """Column names without the blanks around them."""
        self._check_header(header)

    def read(self, names: Sequence[str]) -> TableRows:
        """The rows of some of the columns. Raises InvalidInputError at the file's pointer."""
        wanted = list(dict.fromkeys(names))
        raw = [self._header[name] for name in wanted]
        table = self._read_csv(raw) if self._parquet is None else self._read_parquet(raw)
        if table.num_rows == 0:
            raise self.source.fault("has a header but no rows; add the data")
        columns = {
            name: plain_column(table.column(position)) for position, name in enumerate(wanted)
        }
        numbers = np.arange(1, table.num_rows + 1, dtype=np.int64)
        return TableRows(self.source, columns, numbers)

    def _check_header(self, header: Sequence[str]) -> None:
        stripped = [name.strip() for name in header]
        if len(stripped) < 2:
            raise self.source.fault(
                "has a single column; separate the columns by commas, and give a client key, "
                "features and a target"
            )
        if len(stripped) > MOST_COLUMNS:
            raise self.source.fault(
                f"has {len(stripped)} columns, and {MOST_COLUMNS} are allowed; drop some"
            )
        if "" in stripped:
            position = stripped.index("") + 1
            raise self.source.fault(
                f"has no name for column {position} in its header; name that column or remove it"
            )
        twice = [name for name in self.names if stripped.count(name) > 1]
        if twice:
            raise self.source.fault(
                f"names a column twice in its first line: {listed(twice)}; the first line must "
                "give each column a name of its own"
            )

    def _csv_header(self) -> list[str]:
        if b"\0" in self.source.data:
            raise self.source.fault(
                "is a binary file or not in UTF-8; name a CSV file in UTF-8, or a Parquet file"
            )
        # The reader itself splits the header, so that both readings agree on quotes.
        try:
            with pyarrow.csv.open_csv(self._buffer(), _READ, _PARSE) as reader:
                names: list[str] = reader.schema.names
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            raise self._unreadable(error) from None
        return names

    def _read_csv(self, columns: list[str]) -> Any:
        self._check_cells(self.source.data.count(b"\n"), len(columns))
        convert = pyarrow.csv.ConvertOptions(
            include_columns=columns,
            column_types={name: pa.string() for name in columns},
            strings_can_be_null=False,
        )
        try:
            return pyarrow.csv.read_csv(self._buffer(), _READ, _PARSE, convert)
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            raise self._unreadable(error) from None

    def _open_parquet(self) -> list[str]:
        try:
            self._parquet = pyarrow.parquet.ParquetFile(self._buffer())
            names: list[str] = self._parquet.schema_arrow.names
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            raise self._unreadable(error) from None
        return names

    def _read_parquet(self, columns: list[str]) -> Any:
        self._check_cells(self._parquet.metadata.num_rows, len(columns))
        try:
            table = self._parquet.read(columns=columns, use_threads=False).select(columns)
            table.validate(full=True)  # Parquet does not promise that its text is UTF-8
        except (pa.ArrowException, UnicodeDecodeError, OSError, KeyError) as error:
            raise self._unreadable(error) from None
        return table

    def _check_cells(self, rows: int, columns: int) -> None:
        if rows * columns > LARGEST_TABLE:
            raise self.source.fault(
                f"has about {rows} rows, which make {rows * columns} cells of {columns} columns, "
                f"and {LARGEST_TABLE} are allowed; use fewer columns or rows"
            )

    def _buffer(self) -> Any:
        return pa.BufferReader(self.source.data)

    def _unreadable(self, error: Exception) -> InvalidInputError:
        """What the reader said, without the cells that it quotes."""
        text = str(error)
        if ragged := _RAGGED.search(text):
            row, expected, found = map(int, ragged.groups())
            return self.source.fault(
                f"has {found} cells in data row {row - 1} and {expected} in its header; correct "
                "the row, or quote cells that contain commas"
            )
        if isinstance(error, UnicodeDecodeError) or "UTF8" in text:
            return self.source.fault("is not in UTF-8; save it in that encoding")
        if "Empty CSV" in text:
            return self.source.fault("has no rows; name a file with a header and data")
        if "straddling" in text:
            return self.source.fault("has a quote that never ends; close it")
        return self.source.fault(
            "is neither a CSV nor a Parquet file that can be read; save it anew"
        )


def plain_column(column: Any) -> Any:
    """A column without dictionary encoding, so that only text and numbers are left."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column
