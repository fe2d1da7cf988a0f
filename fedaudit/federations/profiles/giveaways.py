"""Columns that alone predict the target almost without error: often the outcome itself.

A sample of the rows decides. Each column is brought to at most 64 levels, of which one half of the
sample learns the mean target and the other half is predicted, and the reverse. Numbers are measured
as they are, too. What counts is the area under the ROC curve of each class against the others, the
smallest of all classes, or for a number the squared correlation.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.federations.levels import number_in

if TYPE_CHECKING:
    from fedaudit.federations.reading.table_rows import TableRows

TOO_GOOD = 0.98
_MOST_ROWS, _MOST_CELLS, _FEWEST_ROWS = 5000, 500_000, 100
_LEVELS = 64
_FEW = 5
"""A class of fewer sampled rows, or with fewer others, decides nothing."""
_MOST_GAPS = 0.1
"""A column of numbers has a smaller share of other texts."""
_LARGE_ODD = np.uint64(0x9E3779B97F4A7C15)


class RowSample:
    """At most some thousand rows of a table, chosen by their numbers alone; memory for no more."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(dict.fromkeys(names))
        self._most = max(_FEWEST_ROWS, min(_MOST_ROWS, _MOST_CELLS // len(self._names)))
        self._step = np.uint64(1)
        self._parts: list[TableRows] = []

    def add(self, rows: "TableRows") -> None:
        """Consider further rows of the same table."""
        columns = {name: rows.columns[name] for name in self._names}
        self._parts.append(self._thinned(replace(rows, columns=columns)))
        while sum(map(len, self._parts)) > self._most:
            self._step *= np.uint64(2)
            self._parts = [self._thinned(part) for part in self._parts]

    def texts(self, name: str) -> list[str]:
        """A column's cells, empty ones as ''."""
        return [text for part in self._parts for text in part.text(name, "").to_pylist()]

    @property
    def halves(self) -> Bools:
        """[rows]: about half of them."""
        numbers = [self._hashed(part) >> np.uint64(31) for part in self._parts]
        found: Bools = np.concatenate(numbers) % np.uint64(2) == 0
        return found

    def _thinned(self, rows: "TableRows") -> "TableRows":
        return rows.where(self._hashed(rows) % self._step == 0)

    @staticmethod
    def _hashed(rows: "TableRows") -> NDArray[np.uint64]:
        """A file whose rows alternate in some way is sampled evenly nevertheless."""
        mixed: NDArray[np.uint64] = rows.row_numbers.astype(np.uint64) * _LARGE_ODD
        return mixed >> np.uint64(32)


def giveaways(
    sample: RowSample, target: str, features: Sequence[str], *, classes: bool
) -> list[str]:
    """The features that alone predict the target. `classes`: whether it is one of few classes."""
    wanted = np.array(sample.texts(target), dtype=object)
    present = np.array([text != "" if classes else number_in(text) is not None for text in wanted])
    halves, wanted = sample.halves[present], wanted[present]
    if classes:
        outcomes = wanted[:, None] == np.unique(wanted)
        outcomes = outcomes[:, (outcomes.sum(0) >= _FEW) & ((~outcomes).sum(0) >= _FEW)]
    else:
        outcomes = wanted.astype(np.float64)[:, None]
    if outcomes.shape[1] == 0 or len(wanted) < 2 * _FEW:
        return []
    found = []
    for name in features:
        texts = [text for text, kept in zip(sample.texts(name), present, strict=True) if kept]
        if _smallest(texts, outcomes, halves, classes=classes) > TOO_GOOD:
            found.append(name)
    return found


def _smallest(
    texts: list[str], outcomes: NDArray[np.generic], halves: Bools, *, classes: bool
) -> float:
    """How well the column predicts the class that it predicts worst, or the number."""
    numbers = [number_in(text) for text in texts]
    values = np.array([np.nan if number is None else number for number in numbers])
    gaps = float(np.isnan(values).mean())
    levels = _levels(texts, values, numeric=gaps < _MOST_GAPS)
    as_it_is = gaps == 0
    found = []
    for outcome in outcomes.T:
        scores = [] if levels is None else [_learnt(levels, outcome.astype(float), halves)]
        scores += [values] * as_it_is
        if classes:
            fits = [_area(score, outcome.astype(bool)) for score in scores]
            fits += [1 - _area(values, outcome.astype(bool))] * as_it_is
        else:
            fits = [_alike(score, outcome) for score in scores]
            fits += [_alike(_ranks(values), _ranks(outcome))] * as_it_is
        found.append(max(fits, default=0.0))
    return min(found)


def _levels(texts: list[str], values: Floats, *, numeric: bool) -> Ints | None:
    """Each row's level; None for texts of too many."""
    distinct, codes = np.unique(texts, return_inverse=True)
    if len(distinct) <= _LEVELS:
        return codes
    if not numeric:
        return None
    cut = np.floor(_ranks(values) / len(values) * (_LEVELS - 1)).astype(np.int64)
    return np.where(np.isnan(values), _LEVELS - 1, cut)


def _learnt(levels: Ints, outcome: Floats, halves: Bools) -> Floats:
    """For each row the mean outcome of its level in the other half; of a level that is not there,
    of the whole half."""
    found = np.zeros(len(levels))
    for half in (halves, ~halves):
        other = ~half
        rows = np.bincount(levels[other], minlength=int(levels.max()) + 1)
        sums = np.bincount(levels[other], outcome[other], minlength=len(rows))
        whole = sums.sum() / max(1, rows.sum())
        means = np.where(rows > 0, sums / np.maximum(rows, 1), whole)
        found[half] = means[levels[half]]
    return found


def _ranks(values: NDArray[np.generic]) -> Floats:
    """From 0; equal values share the mean of their ranks."""
    _, codes, rows = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(rows) - (rows + 1) / 2)[codes]
    return ranks


def _area(scores: Floats, positive: Bools) -> float:
    """Under the ROC curve: the chance that a positive row scores above another (Hanley, McNeil)."""
    ones, others = int(positive.sum()), int((~positive).sum())
    above = _ranks(scores)[positive].sum() - ones * (ones - 1) / 2
    return float(above / (ones * others))


def _alike(first: NDArray[np.generic], second: NDArray[np.generic]) -> float:
    """The squared correlation; 0 where one of them does not vary."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first.astype(float), second.astype(float))[0, 1] ** 2)
