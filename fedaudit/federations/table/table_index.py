"""An index of a table: facts of all its columns, and the cells of the columns that say whose a row
is, what came out and in which groups it is. From it an experiment is planned without the table.

A Parquet file whose metadata hold the facts. It holds people's data, as the table itself.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.federations.table.column_facts import (
    FactsTally,
    TableFacts,
    facts_from,
    gap_texts,
)
from fedaudit.federations.table.columns import find_columns
from fedaudit.federations.table.features import with_gaps
from fedaudit.spec.table import Table
from fedaudit.version import __version__

_ABOUT = b"fedaudit"
_ANYWHERE = "/federation/path"
_AT_ONCE = 32 * 2**20
"""Bytes of cells that are looked at together: there may be thousands of columns."""
_GROUP_ROWS = 2**17


class NotInIndexError(Exception):
    """Cells that the index does not hold, or not any more."""


@dataclass(frozen=True, eq=False)
class TableIndex:
    """An index that was found, readable as a table of the columns that it holds."""

    file: SourceFile
    facts: TableFacts
    held: frozenset[str]
    """Columns whose cells it holds."""

    @property
    def names(self) -> tuple[str, ...]:
        """All columns of the table."""
        return self.facts.names

    @property
    def rows(self) -> int:
        """Of the table."""
        return self.facts.rows

    def batches(self, names: Sequence[str]) -> Iterator[TableRows]:
        """The rows of some of the columns, as they lie in the table. Raises NotInIndexError."""
        wanted = list(dict.fromkeys(names))
        if not self.held.issuperset(wanted):
            raise NotInIndexError
        first = 1
        for table in self._read(wanted):
            numbers = np.arange(first, first + table.num_rows, dtype=np.int64)
            first += table.num_rows
            yield TableRows(self.file, dict(zip(wanted, table.columns, strict=True)), numbers)

    def _read(self, wanted: list[str]) -> Iterator[Any]:
        try:
            with self.file.open() as stream:
                batches = pq.ParquetFile(cast(Any, stream)).iter_batches(
                    _GROUP_ROWS, columns=wanted, use_threads=False
                )
                for batch in batches:
                    yield pa.Table.from_batches([batch]).select(wanted)
        except (pa.ArrowException, OSError):
            raise NotInIndexError from None


def write_index(source: Table, file: SourceFile, asked: LoadRequest, place: BinaryIO) -> None:
    """Read a table once, some rows at a time, and write its index.

    Raises InvalidInputError where the table cannot be read, also in columns that nobody names;
    OSError.
    """
    table = TableFile(file, header=source.header)
    columns = find_columns(source, table.names, asked.fairness.sensitive)
    held = list(replace(columns, features=()).fields)
    tally, writer = FactsTally(table.names), None
    fields = dict.fromkeys(table.names, _ANYWHERE)
    try:
        for rows in _together(table.batches(table.names)):
            tally.add(with_gaps(rows, fields, source.missing_values))
            kept = pa.table({name: rows.columns[name] for name in held})
            if writer is None:
                writer = pq.ParquetWriter(cast(Any, place), kept.schema, compression="zstd")
            writer.write_table(kept, row_group_size=_GROUP_ROWS)
            asked.progress()
        if writer is not None:
            facts = TableFacts(
                table.names, tally.rows, source.header, gap_texts(source), tally.facts
            )
            about = {"made_by": __version__, "of": file.fingerprint, "facts": facts.as_dict()}
            writer.add_key_value_metadata({_ABOUT: json.dumps(about).encode()})
    finally:
        if writer is not None:
            writer.close()


def read_index(file: SourceFile, fingerprint: str) -> TableIndex | None:
    """The index in a file; None where it is none, of another content, or of another version."""
    try:
        with file.open() as stream:
            found = pq.ParquetFile(cast(Any, stream))
            about = json.loads(found.metadata.metadata[_ABOUT])
            held = frozenset(found.schema_arrow.names)
        if (about["made_by"], about["of"]) != (__version__, fingerprint):
            return None
        return TableIndex(file, facts_from(about["facts"]), held)
    except (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError, OSError):
        return None


def _together(parts: Iterator[TableRows]) -> Iterator[TableRows]:
    """Longer parts, because each column takes time for every part."""
    waiting: list[TableRows] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += sum(column.nbytes for column in part.columns.values())
        if size >= _AT_ONCE:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(parts: Sequence[TableRows]) -> TableRows:
    if len(parts) == 1:
        return parts[0]
    table = pa.concat_tables([pa.table(dict(part.columns)) for part in parts])
    columns = dict(zip(table.column_names, table.columns, strict=True))
    numbers = np.concatenate([part.row_numbers for part in parts])
    return TableRows(parts[0].source, columns, numbers)
