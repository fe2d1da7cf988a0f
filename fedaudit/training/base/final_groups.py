"""Summarise a finished run's predictions, group by group."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.scores import GroupScores
from fedaudit.training.base.group_counts import GroupCounter


@dataclass(frozen=True)
class ScoredRows:
    """The predictions for one cell's validation clients: [clients, rows] each."""

    predictions: NDArray[np.generic]
    """The predicted target (scaled), or the predicted class."""
    values: NDArray[np.float64]
    """The training loss of each row, before any root."""
    hypotheses: NDArray[np.int64] | None
    """The hypothesis that made the prediction; None where there is only one."""
    scored: NDArray[np.bool_] | None
    """The rows that are scored; None for all of them."""

    def first(self, rows: int) -> "ScoredRows":
        """The first of each client's rows: after the longest client there is only padding."""
        return ScoredRows(
            predictions=self.predictions[:, :rows],
            values=self.values[:, :rows],
            hypotheses=None if self.hypotheses is None else self.hypotheses[:, :rows],
            scored=None if self.scored is None else self.scored[:, :rows],
        )


@dataclass(frozen=True)
class FinalGroups:
    """By sensitive attribute; see `FinalResult`."""

    scores: dict[str, GroupScores]
    by_hypothesis: dict[str, NDArray[np.int64]]
    rows: ScoredRows
    """The rows from which all of it was added up."""


def final_groups(
    counter: GroupCounter, rows: ScoredRows, columns: NDArray[np.int64], *, k: int
) -> FinalGroups:
    """Scores of each client's groups, and counts of what each of k hypotheses predicted.

    `columns` [clients]: the clients' places in the data of the counter.
    """
    whole, rows = rows, rows.first(counter.rows)
    right = counter.right(rows.predictions, columns)
    scores = {}
    for name, (groups, codes) in counter.codes(columns).items():
        own = codes[:, : rows.values.shape[1]]
        tally = _Tally(own, own >= 0 if rows.scored is None else (own >= 0) & rows.scored, groups)
        scores[name] = GroupScores(
            rows=tally.count(),
            correct=None if right is None else tally.count(right),
            loss=tally.add(rows.values),
        )
    return FinalGroups(scores, _by_hypothesis(counter, rows, columns, k), whole)


class _Tally:
    """Adds up rows by client and group."""

    def __init__(self, codes: NDArray[np.int64], counted: NDArray[np.bool_], groups: int) -> None:
        clients = np.arange(len(codes))[:, np.newaxis]
        self._counted = counted
        self._place = (clients * groups + codes)[counted]
        self._shape = len(codes), groups
        self._size = len(codes) * groups

    def count(self, which: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """How many rows, or how many of `which` [clients, rows]: [clients, groups]."""
        place = self._place if which is None else self._place[which[self._counted]]
        return np.bincount(place, minlength=self._size).reshape(self._shape)

    def add(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The sums of values [clients, rows]: [clients, groups]."""
        sums = np.bincount(self._place, weights=values[self._counted], minlength=self._size)
        return np.asarray(sums, dtype=np.float64).reshape(self._shape)


def _by_hypothesis(
    counter: GroupCounter, rows: ScoredRows, columns: NDArray[np.int64], k: int
) -> dict[str, NDArray[np.int64]]:
    predicting = np.zeros(rows.values.shape, dtype=np.int64)
    if rows.hypotheses is not None:
        predicting = rows.hypotheses
    parts = []
    for hypothesis in range(k):
        own = predicting == hypothesis
        if rows.scored is not None:
            own &= rows.scored
        parts.append(
            counter.count(rows.predictions[np.newaxis], columns[np.newaxis], scored=own[np.newaxis])
        )
    return {name: np.concatenate([part[name] for part in parts]) for name in counter.attributes}
