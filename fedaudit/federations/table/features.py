"""The features of a table's rows: numbers unchanged, categories encoded, gaps by their rule."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Floats32, Ints
from fedaudit.federations.federation import is_large, no_cells
from fedaudit.federations.levels import Levels
from fedaudit.federations.mapped import (
    EVERY_NUMBER,
    Scales,
    as_float32,
    client_order,
    new_array,
    scaled,
)
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.federations.split import held_out_rows, share_of_rows, split_clients
from fedaudit.federations.table.columns import Columns, FeatureColumn
from fedaudit.spec.labels import find_classes
from fedaudit.spec.sources import Source
from fedaudit.spec.table import Standardise


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Which rows give a column's mean and deviation, and to which rows these are applied."""

    groups: Ints
    """[rows]: rows of one group share mean and deviation."""
    counted: Bools
    """[rows]: whether a row contributes to the statistics of its group."""
    note: str

    def __call__(self, values: Floats) -> Floats:
        """A column [rows] standardised; 0 where its group does not vary.

        The deviation is that of the rows themselves (divided by their number). Sums run row by
        row, so that they are the same on every machine.
        """
        groups, own = self.groups[self.counted], values[self.counted]
        total = int(self.groups.max(initial=-1)) + 1
        # A group may have no row that counts: it does not vary.
        rows = np.maximum(np.bincount(groups, minlength=total), 1)
        mean = np.bincount(groups, own, minlength=total) / rows
        centred = values - mean[self.groups]
        squares = np.square(centred[self.counted])
        variance = np.bincount(groups, squares, minlength=total) / rows
        # A mean of equal numbers may differ from them in its last bit.
        low, high = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
        np.minimum.at(low, groups, own)
        np.maximum.at(high, groups, own)
        varies = (low < high) & (variance > 0)
        deviation = np.sqrt(np.where(varies, variance, 1.0))
        return np.where(varies[self.groups], centred / deviation[self.groups], 0.0)


def standardiser(
    how: Standardise | None,
    clients: Levels,
    *,
    source: Source,
    seed: int,
    keys: NDArray[np.uint64] | None = None,
) -> Standardiser | None:
    """Standardisation over the rows of all training clients, or within each client; None where no
    statistics are taken.

    Held-out clients or rows depend on the experiment's seed. If rows are held out, only training
    rows are counted, which follow from the rows' `keys` [rows], or without these from how many each
    client has. There must be at least two clients.
    """
    fraction = source.validation_fraction
    match how:
        case None | "ranges":
            return None
        case "client":
            groups, among = clients.codes, " within each client,"
            counted, whose = np.ones(len(groups), dtype=np.bool_), "its own rows"
        case "global":
            groups, among = np.zeros_like(clients.codes), ""
            split = split_clients(len(clients.values), validation_fraction=fraction, seed=seed)
            counted, whose = np.isin(clients.codes, split.training), "all training clients' rows"
        case _:
            assert_never(how)
    if source.holds_out_rows:
        if keys is None:
            counts = np.bincount(clients.codes, minlength=len(clients.values))
            counted = np.empty(len(groups), dtype=np.bool_)
            counted[client_order(clients)] = ~share_of_rows(counts, fraction=fraction, seed=seed)
        else:
            counted = ~held_out_rows(keys, fraction=fraction, seed=seed)
        whose = "the rows that train"
    note = f"features standardised{among} by the mean and deviation of {whose}, taken without noise"
    return Standardiser(groups, counted, note)


_CELLS_AT_ONCE = 1 << 20
"""Cells of features that are laid out on disk at a time: 4 MiB."""
GAP = "is empty"
_RULE = (
    "fill the gap, or say under the feature's `missing` what becomes of it: `drop-row`, or "
    "`constant` with a `fill`"
)


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
    rows.refuse(rows.empty(name, where), name, where, GAP, remedy)


@dataclass
class CellCounts:
    """Cells of a feature that are not as they were."""

    filled: int = 0
    """Empty ones, which take a declared value."""
    outside: int = 0
    """Brought to the ends of a range."""

    def notes(self, name: str) -> Iterator[str]:
        """A sentence for each kind that there is, without numbers: with ends of one's choice these
        would count the people within any range, and no guarantee covers such counts."""
        if self.filled:
            yield f"some empty cells of {name!r} were taken as the declared value"
        if self.outside:
            yield f"some values of {name!r} outside its range were brought to its ends"


def encoded_cells(
    rows: TableRows,
    column: FeatureColumn,
    counts: CellCounts,
    *,
    scales: Scales,
    standardise: Standardiser | None = None,
) -> Ints | Floats32:
    """The cells of a feature, [rows]: scaled numbers, standardised if the spec asks for it, or
    positions among the categories of a one-hot feature.

    `counts` are added to. Raises InvalidInputError naming column and row of a cell that is not a
    declared category, not a number, or empty without a rule for it.
    """
    name, fill = column.name, column.feature.fill
    if fill is not None:
        counts.filled += int(np.count_nonzero(rows.empty(name, column.where)))
    if column.categories:
        places = _categories(rows, column)
        if column.one_hot:
            return places
        numbers, scale = places.astype(np.float64), scales.get(name, 1.0)
    else:
        numbers = rows.numbers(name, column.where, missing_allowed=fill is not None, remedy=_RULE)
        if fill is not None:
            numbers = np.where(np.isnan(numbers), float(fill), numbers)
        scale = scales.get(name, scales.get(EVERY_NUMBER, 1.0))
    numbers, outside = scaled(numbers, scale)
    counts.outside += outside
    narrow = as_float32(numbers, name)
    if standardise is None or column.categories:
        return narrow
    return standardise(numbers).astype(np.float32)


def _categories(rows: TableRows, column: FeatureColumn) -> Ints:
    """Each row's position among the declared categories."""
    levels = rows.levels(column.name, column.where)
    fill = column.feature.fill
    found = [*find_classes(column.categories, levels.values), -1]  # the last entry: an empty cell
    if fill is not None:
        found[-1] = column.categories.index(str(fill))
    codes = np.array(found, dtype=np.int64)[levels.codes]
    if (codes < 0).any():
        problem, remedy = GAP, _RULE
        if levels.codes[np.argmax(codes < 0)] >= 0:
            problem = f"is not one of the {len(column.categories)} declared categories"
            remedy = "add its value to `categories`, or to `missing_values` if it means a gap"
        rows.refuse(codes < 0, column.name, column.where, problem, remedy)
    return codes


def read_features(
    rows: TableRows,
    columns: Columns,
    clients: Levels,
    *,
    scales: Scales,
    standardise: Standardiser | None,
    folder: Path | None,
    progress: Callable[[], None],
) -> tuple[Floats32, Ints | None, list[str], dict[str, int]]:
    """The scaled features [rows, features], the order in which they lie, notes, and the empty cells
    of each feature that take a declared value.

    They are in the order of the rows, or by `client_order` where they are large, in a mapped file
    of the folder. Without a folder the cells are checked, in the same order and parts, and none is
    kept: zeros in their place take no memory. Raises InvalidInputError naming column and row.
    """
    large = is_large(rows=len(rows), features=columns.width)
    order = client_order(clients) if large or folder is None else None
    place = None if order is None or folder is None else np.argsort(order)
    if folder is None:
        values = no_cells(rows=len(rows), features=columns.width)
    else:
        shape = (len(rows), columns.width)
        values = new_array(folder, shape) if large else np.empty(shape, np.float32)
    # A mean needs all rows of a column.
    whole = not large or standardise is not None
    step = max(1, len(rows) if whole else _CELLS_AT_ONCE // max(1, columns.width))
    counts = [CellCounts() for _ in columns.features]
    for start in range(0, len(rows), step):
        part = rows.part(start, step)
        own = slice(start, start + len(part))
        to, at = own if place is None else place[own], 0
        for column, count in zip(columns.features, counts, strict=True):
            brought = None if folder is None else standardise
            cells = encoded_cells(part, column, count, scales=scales, standardise=brought)
            width = len(column.names)
            if folder is not None and column.one_hot:
                values[to, at : at + width] = cells[:, None] == np.arange(width)
            elif folder is not None:
                values[to, at] = cells
            at += width
        progress()
    named = [(column.name, count) for column, count in zip(columns.features, counts, strict=True)]
    notes = [note for name, count in named for note in count.notes(name)]
    if standardise is not None:
        notes.append(standardise.note)
    filled = {name: count.filled for name, count in named if count.filled}
    return values, order, notes, filled
