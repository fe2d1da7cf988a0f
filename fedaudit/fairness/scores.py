"""Loss and accuracy per group, and their gaps: what needs no favourable outcome.

A group's accuracy is the share of its rows classified rightly; its loss is that of its rows taken
as one client's, in the unit of the training loss: the mean of the rows' values, for `rmse` the
root of that mean. Both are pooled over records and cover the rows that the counts cover; without
a favourable outcome, every held-out row of a group.

Differences and ratios are Fairlearn's, as in `metrics`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import Figure, left_out_note, why_incomparable
from fedaudit.fairness.metrics import comparable, spread
from fedaudit.spec.metrics import SCORE_METRICS

NO_ACCURACY = "the target is a number, so there is no accuracy"
NOT_FINITE = "the loss of a group is not finite"
ZERO_OVER_ZERO = "the losses compared are all 0, and 0/0 is no ratio"


@dataclass(frozen=True)
class GroupScores:
    """What the validation clients' rows of one attribute add up to."""

    rows: NDArray[np.int64]
    """[clients, groups]: rows that were scored."""
    correct: NDArray[np.int64] | None
    """[clients, groups]: rows classified rightly; None for regression."""
    loss: NDArray[np.float64]
    """[clients, groups]: sums of the rows' values of the training loss, before any root."""

    @property
    def sums(self) -> NDArray[np.float64]:
        """[clients, 3, groups]: rows, correct (NaN for regression) and loss, to be added up."""
        correct = np.full(self.rows.shape, np.nan) if self.correct is None else self.correct
        return np.stack([self.rows, correct, self.loss], axis=1, dtype=np.float64)


def group_scores(sums: NDArray[np.float64], *, root_mean: bool) -> NDArray[np.float64]:
    """Accuracy and loss of each group: [..., 2, groups] of `GroupScores.sums` [..., 3, groups].

    `root_mean`: whether a loss is the root of the mean. NaN for a group without rows.
    """
    rows = sums[..., :1, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        means: NDArray[np.float64] = sums[..., 1:, :] / rows
    if root_mean:
        means[..., 1, :] = np.sqrt(means[..., 1, :])
    return means


def score_values(
    sums: NDArray[np.float64],
    shown: NDArray[np.bool_],
    *,
    root_mean: bool,
    reference: int | None = None,
) -> NDArray[np.float64]:
    """The SCORE_METRICS of sums [..., 3, groups] over the shown groups [..., groups]: [..., 3].

    NaN where `gap_values` would be, and where a shown group's loss is not finite.
    """
    scores = group_scores(sums, root_mean=root_mean)
    scores[~np.isfinite(scores)] = np.nan
    differences, ratios = spread(scores, shown[..., np.newaxis, :], reference)
    values = np.stack([differences[..., 0], differences[..., 1], ratios[..., 1]], axis=-1)
    values[~comparable(shown, reference), :] = np.nan
    return values


def score_gaps(scores: GroupScores, disclosure: Disclosure, *, root_mean: bool) -> list[Figure]:
    """The SCORE_METRICS, pooled over records, over the groups disclosed.

    Raises ValueError where the disclosure was not decided from the rows of these scores.
    """
    rows, sums = scores.rows.sum(axis=0), scores.sums.sum(axis=0)
    disclosure.check(rows)
    shown, reference = disclosure.shown, disclosure.reference
    common = why_incomparable(rows, shown, reference)
    note = left_out_note(len(shown) - int(shown.sum()), len(shown))
    finite = bool(np.isfinite(sums[2][shown]).all())
    figures = []
    values = score_values(sums, shown, root_mean=root_mean, reference=reference).tolist()
    for metric, value in zip(SCORE_METRICS, values, strict=True):
        reason = common
        if metric == "accuracy_difference" and scores.correct is None:
            reason = NO_ACCURACY
        elif reason is None and np.isnan(value):
            reason = ZERO_OVER_ZERO if finite else NOT_FINITE
        known = reason is None
        figures.append(Figure(metric, value if known else None, note if known else reason))
    return figures
