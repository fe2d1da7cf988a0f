"""What is known of a table without its cells: facts of its columns, and an index of some cells.

Facts are gathered once, over all rows of a file: enough to know that a spec fits them. They never
say what is wrong: where they leave a doubt, the cells are read.

An index holds the facts of all columns, and the cells of the columns that say whose a row is, what
came out and in which groups it is. From it an experiment is planned without the table. It is a
Parquet file whose metadata hold the facts. It holds people's data, as the table itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from fedaudit.federations.classes import find_classes
from fedaudit.federations.packing import EVERY_NUMBER, Scales, as_float32, scaled
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_files import TableFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.source_kind import LoadRequest
from fedaudit.federations.table.columns import FeatureColumn, find_columns
from fedaudit.federations.table.features import CellCounts, with_gaps
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.table import Table
from fedaudit.version import __version__

_MAX_VALUES = 1000
"""Distinct values of a column, as many as a feature may have categories."""
_MAX_TEXT = 2**20
"""Characters of all distinct values of a table."""
_ANYWHERE = "/federation/path"


@dataclass(frozen=True)
class ColumnFacts:
    """Of one column, over all rows of the file."""

    empty: int
    """Cells that are empty, or spell a missing value."""
    ends: tuple[float, float] | None
    """The smallest and the largest number; None unless every other cell is a usable number."""
    values: tuple[str, ...] | None
    """The distinct texts of the other cells; None where they are many, or cannot be names."""

    def counts(self, column: FeatureColumn, scales: Scales) -> CellCounts | None:
        """What becomes of the cells of a feature; None where one may be refused, where a gap leaves
        its row out, or where only the cells say how many lie outside a range."""
        feature = column.feature
        if self.empty and not feature.fills_gaps:
            return None
        if column.categories:
            if self.values is None or -1 in find_classes(column.categories, self.values):
                return None
            numbers = [0.0, len(column.categories) - 1.0]
            scale = 1.0 if column.one_hot else scales.get(column.name, 1.0)
        else:
            if self.ends is None or (self.empty and feature.fill is None):
                return None
            numbers = [*self.ends, *([float(feature.fill)] if feature.fill is not None else [])]
            scale = scales.get(column.name, scales.get(EVERY_NUMBER, 1.0))
        found, outside = scaled(np.array(numbers), scale)
        try:
            as_float32(found, column.name)
        except InvalidInputError:
            return None
        return None if outside else CellCounts(filled=self.empty)


@dataclass(frozen=True)
class TableFacts:
    """Of a file's columns, read in one way."""

    names: tuple[str, ...]
    """All columns, in their order."""
    rows: int
    header: bool
    missing_values: tuple[str, ...]
    """Sorted texts that mean a gap."""
    columns: Mapping[str, ColumnFacts]
    """Those of which something is known."""

    def describe(self, source: Table) -> bool:
        """Whether a spec reads the file in that way."""
        return (self.header, self.missing_values) == (source.header, gap_texts(source))


_FACTS = TypeAdapter(TableFacts)


def gap_texts(source: Table) -> tuple[str, ...]:
    """The texts beside the empty one that mean a gap, sorted."""
    return tuple(sorted({text.strip() for text in source.missing_values} - {""}))


class FactsTally:
    """Facts of the columns of a table, gathered over its rows, whose gaps are empty."""

    def __init__(self, names: Sequence[str]) -> None:
        self._columns = {name: _ColumnTally() for name in names}
        self.rows = 0

    def add(self, rows: TableRows) -> None:
        """Some more rows."""
        self.rows += len(rows)
        for name, tally in self._columns.items():
            tally.add(rows, name)

    @property
    def facts(self) -> dict[str, ColumnFacts]:
        """Of every column whose cells are texts or numbers."""
        text, found = 0, {}
        for name, tally in self._columns.items():
            if tally.is_unknown:
                continue
            values = tally.values
            if values is not None:
                text += sum(map(len, values))
                values = values if text <= _MAX_TEXT else None
            low, high = tally.ends
            found[name] = ColumnFacts(
                tally.empty,
                (low, high) if tally.is_number and low <= high else None,
                None if values is None else tuple(values),
            )
        return found


class _ColumnTally:
    def __init__(self) -> None:
        self.is_unknown = False
        self.empty = 0
        self.is_number = True
        self.ends = (np.inf, -np.inf)
        self.values: dict[str, None] | None = {}

    def add(self, rows: TableRows, name: str) -> None:
        """A check of loading that fails leaves what it checks unknown from then on."""
        if self.is_unknown:
            return
        try:
            self.empty += _empty_cells(rows, name)
        except InvalidInputError:
            self.is_unknown = True
            return
        if self.is_number:
            self._add_numbers(rows, name)
        if self.values is not None:
            self._add_values(rows, name)

    def _add_numbers(self, rows: TableRows, name: str) -> None:
        try:
            numbers = rows.numbers(name, _ANYWHERE, missing_allowed=True)
        except InvalidInputError:
            self.is_number = False
            return
        numbers = numbers[~np.isnan(numbers)]
        if len(numbers):
            low, high = self.ends
            self.ends = min(low, float(numbers.min())), max(high, float(numbers.max()))

    def _add_values(self, rows: TableRows, name: str) -> None:
        # Measurements are no categories, and to write them as text takes longer than all else.
        if pa.types.is_floating(rows.columns[name].type):
            self.values = None
            return
        try:
            found, _ = rows.encoded(name, _ANYWHERE)
        except InvalidInputError:
            self.values = None
            return
        values = {**(self.values or {}), **dict.fromkeys(value for value in found if value)}
        self.values = values if len(values) <= _MAX_VALUES else None


def _empty_cells(rows: TableRows, name: str) -> int:
    column = rows.columns[name]
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return int(column.null_count)  # a number is no empty text, however it is written
    return int(np.count_nonzero(rows.empty(name, _ANYWHERE)))


_ABOUT = b"fedaudit"
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
        for rows in table.batches(table.names, at_once=_AT_ONCE):
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
            about = {
                "made_by": __version__,
                "of": file.fingerprint,
                "facts": _FACTS.dump_python(facts, mode="json"),
            }
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
        return TableIndex(file, _FACTS.validate_python(about["facts"]), held)
    except (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError, OSError):
        return None
