"""The features of a table's rows: numbers unchanged, categories encoded, gaps by their rule."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedaudit.federations.classes import find_classes
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.scaling import EVERY_NUMBER, Scales, as_float32, scaled
from fedaudit.federations.table.columns import FeatureColumn
from fedaudit.federations.table.standardise import Standardiser

_CELLS_AT_ONCE = 1 << 20
"""Cells of features that are laid out on disk at a time: 4 MiB."""
_GAP = "is empty"
_RULE = (
    "fill the gap, or say under the feature's `missing` what becomes of it: `drop-row`, or "
    "`constant` with a `fill`"
)


@dataclass(frozen=True, eq=False)
class Features:
    """The features of the rows, ready for training."""

    values: NDArray[np.float32]
    """[rows, features], scaled."""
    names: tuple[str, ...]
    notes: tuple[str, ...]


def with_gaps(rows: TableRows, fields: Mapping[str, str], missing: Sequence[str]) -> TableRows:
    """The rows, with cells that spell a missing value made empty.

    `fields` are the columns and the fields of the spec that name them. Numbers of a Parquet file
    are compared in their written form. Raises InvalidInputError for a column without one, or whose
    type has no gaps.
    """
    texts = {text.strip() for text in missing} - {""}
    if not texts:
        return rows
    for name, where in fields.items():
        missed = pc.is_in(rows.text(name, where), value_set=pa.array(sorted(texts), pa.string()))
        column = rows.columns[name]
        try:
            emptied = pc.if_else(missed, pa.scalar(None, column.type), column)
        except pa.ArrowException:
            raise rows.type_fault(name, where) from None
        rows = rows.with_column(name, emptied)
    return rows


def refuse_gaps(rows: TableRows, name: str, where: str, *, remedy: str) -> None:
    """Raise InvalidInputError at `where` for the first empty cell of a column."""
    empty = rows.empty(name, where)
    if empty.any():
        raise rows.fault(name, int(np.argmax(empty)), where, _GAP, remedy)


@dataclass(frozen=True, eq=False)
class Laid:
    """Where features are written, so that large ones need not be in memory."""

    values: NDArray[np.float32]
    """[rows, features]"""
    place: NDArray[np.int64]
    """[rows]: where each row of the file goes."""


def read_features(
    rows: TableRows,
    columns: Sequence[FeatureColumn],
    *,
    scales: Scales,
    standardise: Standardiser | None,
    laid: Laid | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Features:
    """The features of all rows, scaled, and standardised if the spec asks for it.

    With `laid` they are written there, some rows at a time, and else in memory, in the order of the
    rows. Raises InvalidInputError naming column and row of a cell that is not a declared category,
    not a number, or empty without a rule for it.
    """
    names = tuple(name for column in columns for name in column.names)
    values = np.empty((len(rows), len(names)), dtype=np.float32) if laid is None else laid.values
    counts = [CellCounts() for _ in columns]
    whole = laid is None or standardise is not None
    for start, part in _parts(rows, features=len(names), whole=whole):
        stop = start + len(part)
        at = slice(start, stop) if laid is None else laid.place[start:stop]
        first = 0
        for column, count in zip(columns, counts, strict=True):
            width = len(column.names)
            count.filled += _filled(part, column)
            if column.one_hot:
                codes = _categories(part, column)
                values[at, first : first + width] = codes[:, None] == np.arange(width)
            else:
                values[at, first], outside = _number_column(part, column, scales, standardise)
                count.outside += outside
            first += width
        progress()
    return Features(values, names, feature_notes(columns, counts, standardise))


def check_features(
    rows: TableRows,
    columns: Sequence[FeatureColumn],
    *,
    scales: Scales,
    counts: Sequence["CellCounts"],
    whole: bool = True,
    progress: Callable[[], None] = lambda: None,
) -> None:
    """What `read_features` refuses is refused with the same error, and no value is kept.

    `counts`: of each column, added to. `whole`: whether each column is looked at from its first row
    to its last before the next one, as it is where features are not laid out.
    """
    names = [name for column in columns for name in column.names]
    for _, part in _parts(rows, features=len(names), whole=whole):
        for column, count in zip(columns, counts, strict=True):
            count.filled += _filled(part, column)
            if column.one_hot:
                _categories(part, column)
            else:
                count.outside += _number_column(part, column, scales, None)[1]
        progress()


def feature_notes(
    columns: Sequence[FeatureColumn],
    counts: Sequence["CellCounts"],
    standardise: Standardiser | None,
) -> tuple[str, ...]:
    """What was done to the cells of each column, for the report."""
    notes = [
        note
        for column, count in zip(columns, counts, strict=True)
        for note in count.notes(column.name)
    ]
    return (*notes, standardise.note) if standardise is not None else tuple(notes)


def _parts(rows: TableRows, *, features: int, whole: bool) -> Iterator[tuple[int, TableRows]]:
    """All rows, or some at a time where a column need not be `whole`, as its mean needs it; and the
    place of the first of them."""
    step = max(1, len(rows) if whole else _CELLS_AT_ONCE // max(1, features))
    for start in range(0, len(rows), step):
        yield start, rows.part(start, step)


@dataclass
class CellCounts:
    """Cells of a feature that are not as they were."""

    filled: int = 0
    """Empty ones, which take a declared value."""
    outside: int = 0
    """Brought to the ends of a range."""

    def notes(self, name: str) -> Iterator[str]:
        """A sentence for each kind that there is."""
        if self.filled:
            yield f"empty cells of {name!r}, taken as the declared value: {self.filled}"
        if self.outside:
            yield f"values of {name!r} outside its range, brought to its ends: {self.outside}"


def _number_column(
    rows: TableRows, column: FeatureColumn, scales: Scales, standardise: Standardiser | None
) -> tuple[NDArray[np.float32], int]:
    """A numeric or ordinal feature, scaled, and how many values lay outside its range."""
    if column.categories:
        numbers, scale = _categories(rows, column).astype(np.float64), scales.get(column.name, 1.0)
    else:
        numbers = _numbers(rows, column)
        scale = scales.get(column.name, scales.get(EVERY_NUMBER, 1.0))
    numbers, outside = scaled(numbers, scale)
    narrow = as_float32(numbers, column.name)
    if standardise is not None and not column.categories:
        narrow = standardise(numbers).astype(np.float32)
    return narrow, outside


def _filled(rows: TableRows, column: FeatureColumn) -> int:
    """How many cells take the value declared for empty ones."""
    if not column.feature.fills_gaps:
        return 0
    return int(np.count_nonzero(rows.empty(column.name, column.where)))


def _numbers(rows: TableRows, column: FeatureColumn) -> NDArray[np.float64]:
    if column.feature.fill is None:
        return rows.numbers(column.name, column.where, remedy=_RULE)
    numbers = rows.numbers(column.name, column.where, missing_allowed=True)
    return np.where(np.isnan(numbers), float(column.feature.fill), numbers)


def _categories(rows: TableRows, column: FeatureColumn) -> NDArray[np.int64]:
    """Each row's position among the declared categories."""
    levels = rows.levels(column.name, column.where)
    fill = column.feature.fill
    found = [*find_classes(column.categories, levels.values), -1]  # the last entry: an empty cell
    if fill is not None:
        found[-1] = column.categories.index(str(fill))
    codes = np.array(found, dtype=np.int64)[levels.codes]
    if (codes < 0).any():
        position = int(np.argmax(codes < 0))
        if levels.codes[position] < 0:
            problem, remedy = _GAP, _RULE
        else:
            problem = f"is not one of the {len(column.categories)} declared categories"
            remedy = "add its value to `categories`, or to `missing_values` if it means a gap"
        raise rows.fault(column.name, position, column.where, problem, remedy)
    return codes
