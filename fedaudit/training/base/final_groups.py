"""Summarise a finished run's predictions, group by group."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.gaps import GroupScores
from fedaudit.training.base.group_counts import GroupCounter, RowPlaces


@dataclass(frozen=True)
class ScoredRows:
    """The predictions for one cell's validation clients, client after client: [rows] each."""

    predictions: NDArray[np.generic]
    """The predicted target (scaled), or the predicted class."""
    values: NDArray[np.float64]
    """The training loss of each row, before any root."""
    hypotheses: NDArray[np.int64] | None
    """The hypothesis that made the prediction; None where there is only one."""
    scored: NDArray[np.bool_] | None
    """The rows that are scored; None for all of them."""


@dataclass(frozen=True)
class FinalGroups:
    """By sensitive attribute; see `FinalResult`."""

    scores: dict[str, GroupScores]
    by_hypothesis: dict[str, NDArray[np.int64]]
    rows: ScoredRows
    """The rows from which all of it was added up."""


def final_groups(
    counter: GroupCounter, rows: ScoredRows, places: RowPlaces, *, k: int
) -> FinalGroups:
    """Scores of each client's groups, and counts of what each of k hypotheses predicted.

    `places`: where the rows lie in the data of the counter.
    """
    right = counter.right(rows.predictions, places.place)
    scores = {}
    for name, (groups, codes) in counter.codes(places.place).items():
        counted = codes >= 0 if rows.scored is None else (codes >= 0) & rows.scored
        tally = _Tally(codes, counted, places, groups)
        scores[name] = GroupScores(
            rows=tally.count(),
            correct=None if right is None else tally.count(right),
            loss=tally.add(rows.values),
        )
    predicting = rows.hypotheses
    if predicting is None:
        predicting = np.zeros(len(places.place), dtype=np.int64)
    by_hypothesis = counter.count_rows(
        rows.predictions, places.place, predicting, slots=k, scored=rows.scored
    )
    return FinalGroups(scores, by_hypothesis, rows)


class _Tally:
    """Adds up rows by client and group."""

    def __init__(
        self, codes: NDArray[np.int64], counted: NDArray[np.bool_], places: RowPlaces, groups: int
    ) -> None:
        self._counted = counted
        self._place = (places.client * groups + codes)[counted]
        self._shape = places.clients, groups
        self._size = places.clients * groups

    def count(self, which: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """How many rows, or how many of `which` [rows]: [clients, groups]."""
        place = self._place if which is None else self._place[which[self._counted]]
        return np.bincount(place, minlength=self._size).reshape(self._shape)

    def add(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sums of values [rows]: [clients, groups]."""
        sums = np.bincount(self._place, weights=values[self._counted], minlength=self._size)
        return np.asarray(sums, dtype=np.float64).reshape(self._shape)
