"""A Parquet file, read as a stream of batches."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.spec.errors import InvalidInputError

_BATCH_ROWS = 2**16
_BATCH_CELLS = 2**20
_MAX_CELL_LENGTH = 4096
_SHOWN_TYPE = 60  # characters of a nested type's name
_FAULTS = (pa.ArrowException, UnicodeDecodeError, OSError, KeyError)


class ParquetFile:
    """A Parquet file whose footer has been read: `names`, `rows`, then `batches`.

    Raises InvalidInputError at the file's pointer.
    """

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        with source.open() as stream:
            try:
                file = self._open(stream)
                self._schema: Any = file.schema_arrow
                self.rows: int = file.metadata.num_rows
            except _FAULTS:
                raise self._unreadable() from None
        self.names: list[str] = self._schema.names

    def batches(self, columns: Sequence[int]) -> Iterator[Any]:
        """Record batches of some columns (by position), without dictionary encoding.

        Raises InvalidInputError for a nested column and for very long cells, too.
        """
        self._check_flat(columns)
        names = [self.names[column] for column in columns]
        texts = [name for name in names if _is_text(self._schema.field(name).type)]
        with self._source.open() as stream:
            try:
                # If read with dictionaries, a long value that repeats takes no memory per row.
                rows = max(1, min(_BATCH_ROWS, _BATCH_CELLS // max(1, len(names))))
                read = self._open(stream, texts).iter_batches(
                    rows, columns=names, use_threads=False
                )
            except _FAULTS:
                raise self._unreadable() from None
            first = 1
            while (batch := self._next(read)) is not None:
                self._check_cells(batch, first)
                first += batch.num_rows
                yield self._plain(batch.select(names))

    def _open(self, stream: Any, texts: Sequence[str] = ()) -> Any:
        return pyarrow.parquet.ParquetFile(cast(Any, stream), read_dictionary=list(texts))

    def _next(self, read: Iterator[Any]) -> Any:
        try:
            batch = next(read, None)
            if batch is not None:
                batch.validate(full=True)  # Parquet does not promise that its text is UTF-8
            return batch
        except _FAULTS:
            raise self._unreadable() from None

    def _plain(self, batch: Any) -> Any:
        """Without dictionary encoding, so that only text and numbers remain."""
        try:
            plain = [
                column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
                for column in batch.columns
            ]
        except _FAULTS:
            raise self._unreadable() from None
        return pa.RecordBatch.from_arrays(plain, names=batch.schema.names)

    def _check_flat(self, columns: Sequence[int]) -> None:
        for column in columns:
            kind = self._schema.field(column).type
            if pa.types.is_nested(kind):
                shown = str(kind)
                shown = shown if len(shown) <= _SHOWN_TYPE else shown[:_SHOWN_TYPE] + "..."
                raise self._source.fault(
                    f"has a nested column {self.names[column].strip()!r} of type {shown}; store "
                    "it as columns of text or numbers, or leave it out"
                )

    def _check_cells(self, batch: Any, first: int) -> None:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if not (pa.types.is_dictionary(column.type) and _is_text(column.type.value_type)):
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

    def _unreadable(self) -> InvalidInputError:
        return self._source.fault(
            "is neither a CSV nor a Parquet file that can be read; save it anew"
        )


def _is_text(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )
