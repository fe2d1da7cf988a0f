"""Files that name and type their columns themselves, read as streams: Parquet."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_rows import is_text
from fedaudit.spec.table import TABLE_FORMATS, ColumnarFormat

UNREADABLE = f"is no {TABLE_FORMATS} file that can be read; save it anew"
_BATCH_ROWS = 2**16
_BATCH_CELLS = 2**20
_MAX_CELL_LENGTH = 4096
_SHOWN_TYPE = 60  # characters of a nested type's name
_FAULTS = (pa.ArrowException, UnicodeDecodeError, OSError, KeyError)


class ColumnarFile(ABC):
    """A file whose columns are known: `names`, `rows`, then `batches`.

    Raises InvalidInputError at the file's pointer.
    """

    magic: ClassVar[bytes]
    """How every file of the format starts."""
    note: str | None = None

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        with source.open() as stream, self._faults():
            self._schema, self.rows = self._outline(stream)
        self.names: list[str] = self._schema.names

    @abstractmethod
    def _outline(self, stream: BinaryIO) -> tuple[Any, int | None]:
        """Its schema, and how many rows it declares, if it does."""

    @abstractmethod
    def _read(self, stream: BinaryIO, names: list[str], texts: list[str], rows: int) -> Any:
        """An iterator of record batches of some columns, about so many rows each; `texts` are
        those of text, which are best read with dictionaries: a long value that repeats then takes
        no memory per row."""

    def batches(self, columns: Sequence[int]) -> Iterator[Any]:
        """Record batches of some columns (by position), without dictionary encoding.

        Raises InvalidInputError for a nested column and for very long cells, too.
        """
        self._check_flat(columns)
        names = [self.names[column] for column in columns]
        texts = [name for name in names if _is_bytes(self._schema.field(name).type)]
        with self._source.open() as stream:
            rows = max(1, min(_BATCH_ROWS, _BATCH_CELLS // max(1, len(names))))
            with self._faults():
                read = self._read(stream, names, texts, rows)
            first = 1
            while (batch := self._next(read)) is not None:
                self._check_cells(batch, first)
                first += batch.num_rows
                yield self._plain(batch.select(names))

    def _next(self, read: Iterator[Any]) -> Any:
        with self._faults():
            batch = next(read, None)
            if batch is not None:
                batch.validate(full=True)  # no format promises that its text is UTF-8
        return batch

    def _plain(self, batch: Any) -> Any:
        """Without dictionary encoding, so that only text and numbers remain."""
        with self._faults():
            plain = [
                column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                for column in batch.columns
            ]
        return pa.RecordBatch.from_arrays(plain, names=batch.schema.names)

    def _check_flat(self, columns: Sequence[int]) -> None:
        for column in columns:
            kind = self._schema.field(column).type
            if pa.types.is_nested(kind):
                shown = str(kind)[:_SHOWN_TYPE] + "..." * (len(str(kind)) > _SHOWN_TYPE)
                raise self._source.fault(
                    f"has a nested column {self.names[column].strip()!r} of type {shown}; store "
                    "it as columns of text or numbers, or leave it out"
                )

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


class ParquetFile(ColumnarFile):
    """A Parquet file whose footer has been read."""

    magic = b"PAR1"

    def _outline(self, stream: BinaryIO) -> tuple[Any, int]:
        file = pyarrow.parquet.ParquetFile(stream)
        return file.schema_arrow, file.metadata.num_rows

    def _read(self, stream: BinaryIO, names: list[str], texts: list[str], rows: int) -> Any:
        # Buffered ahead, the columns of the whole file would be in memory.
        file = pyarrow.parquet.ParquetFile(stream, read_dictionary=texts, pre_buffer=False)
        return file.iter_batches(rows, columns=names, use_threads=False)


COLUMNAR: Mapping[ColumnarFormat, type[ColumnarFile]] = {"Parquet": ParquetFile}
"""Any other file is read as CSV."""


def _is_bytes(kind: Any) -> bool:
    return is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
