"""Gaps between groups, each with its reason: of rates, of loss and accuracy, and over clients.

Names and definitions are Fairlearn's (version 0.15, `between_groups`); how gaps are computed is in
`metrics`. Fairlearn answers 0 for the true positive rate of a group without positives, reads a
single group as perfectly fair and gives NaN for 0/0. Here such a figure is None, with the reason.
Groups that are not disclosed are left out; the figure then covers the others and its reason says
so.

Loss and accuracy need no favourable outcome. A group's accuracy is the share of its rows classified
rightly; its loss is that of its rows taken as one client's, in the unit of the training loss: the
mean of the rows' values, for `rmse` the root of that mean. Both are pooled over records and cover
the rows that the counts cover; without a favourable outcome, every held-out row of a group.

In a rate averaged over clients each client's own rate counts the same, however many rows it has.
Rates pooled over records and rates averaged over clients are two figures. Where large clients fare
better than small ones in one group and not in another, their gaps differ, and either may be 0 where
the other is not. A client has a say in a rate only where it has rows in the rate's denominator.

What is hidden in the pooled rates is hidden here, and groups with fewer than two clients besides:
their average would be one client's rate.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import MIN_CLIENTS, Disclosure
from fedaudit.fairness.metrics import (
    comparable,
    group_rates,
    lacking,
    rate_gaps,
    scored_rows,
    spread,
)
from fedaudit.spec.metrics import METRICS, RATES, SCORE_METRICS

NO_OUTCOME = "no favourable outcome was declared"
_SUPPRESSED = "too few scored rows, or suppressed for another reason"
ZERO_OVER_ZERO = "the rates compared are all 0, and 0/0 is no ratio"


class Figure(NamedTuple):
    """One metric. `reason` says why the value is None, or what the value leaves out."""

    metric: str
    value: float | None
    reason: str | None


def gap_values(
    counts: NDArray[np.int64], shown: NDArray[np.bool_], *, reference: int | None = None
) -> NDArray[np.float64]:
    """The METRICS of counts [..., groups, 4] over the shown groups [..., groups]: [..., metrics].

    NaN as in `rate_gaps`.
    """
    return rate_gaps(group_rates(counts), shown, reference=reference)


def gaps(counts: NDArray[np.int64], disclosure: Disclosure) -> list[list[Figure]]:
    """The METRICS for each leading index of counts [..., groups, 4], over the groups disclosed.

    Raises ValueError where the disclosure was not decided from the rows of these counts.
    """
    groups = disclosure.rows.shape[-1]
    if counts.shape[-2:] != (groups, 4):
        raise ValueError(
            f"counts have shape {counts.shape} for {groups} groups; give [..., groups, 4]"
        )
    block = counts.reshape(-1, groups, 4)
    if not disclosure.rule.has_favourable_outcome:
        return [[Figure(metric, None, NO_OUTCOME) for metric in METRICS] for _ in block]
    rows = scored_rows(counts)
    disclosure.check(rows)
    return gaps_between(
        block,
        disclosure.shown.reshape(-1, groups),
        reference=disclosure.reference,
        rows=rows.reshape(-1, groups),
    )


def gaps_between(
    block: NDArray[np.int64],
    shown: NDArray[np.bool_],
    *,
    reference: int | None,
    rows: NDArray[np.int64],
) -> list[list[Figure]]:
    """The METRICS of each of several counts [count, groups, 4] over the shown [count, groups].

    `rows` [count, groups]: the scored rows that reasons may name.
    """
    groups = block.shape[1]
    values = gap_values(block, shown, reference=reference)
    missing: NDArray[np.bool_] = np.isnan(values)
    left_out = (groups - shown.sum(axis=-1)).tolist()
    explain: list[bool] = np.any(missing, axis=-1).tolist()
    figures = []
    for position, row in enumerate(values.tolist()):
        note = left_out_note(left_out[position], groups)
        if not explain[position]:
            figures.append([Figure(*pair, note) for pair in zip(METRICS, row, strict=True)])
            continue
        reasons = _Reasons(block[position], shown[position], rows[position], reference)
        figures.append(
            [
                Figure(metric, None, reasons.why(metric)) if lost else Figure(metric, value, note)
                for metric, value, lost in zip(METRICS, row, missing[position], strict=True)
            ]
        )
    return figures


def left_out_note(hidden: int, groups: int) -> str | None:
    """What a figure leaves out; None where that is nothing."""
    if not hidden:
        return None
    return f"{hidden} of {groups} groups left out: {_SUPPRESSED}"


def why_incomparable(
    rows: NDArray[np.int64], shown: NDArray[np.bool_], reference: int | None
) -> str | None:
    """Why the shown of some groups [groups] with these scored rows cannot be compared, or None."""
    left, with_rows = int(shown.sum()), int((rows > 0).sum())
    if with_rows == 0:
        return "no row was scored"
    if with_rows == 1:
        return "only one group has scored rows; a gap needs two"
    if left < 2:
        hidden = left_out_note(len(shown) - left, len(shown))
        return f"fewer than two groups are left to compare ({hidden})"
    if reference is not None and not shown[reference]:
        return f"the reference group is left out: {_SUPPRESSED}"
    return None


class _Reasons:
    """Why figures of one index are missing."""

    def __init__(
        self,
        counts: NDArray[np.int64],
        shown: NDArray[np.bool_],
        rows: NDArray[np.int64],
        reference: int | None,
    ) -> None:
        self._rates = group_rates(counts)[:, shown]
        self._common = why_incomparable(rows, shown, reference)

    def why(self, metric: str) -> str:
        if self._common is not None:
            return self._common
        family = METRICS[metric].family
        without = lacking(self._rates, family.name)
        if without:
            lack = "lacks" if without == 1 else "lack"
            return f"{without} of the groups compared {lack} {family.rows}: a rate is undefined"
        return ZERO_OVER_ZERO


NO_ACCURACY = "the target is a number, so there is no accuracy"
NOT_FINITE = "the loss of a group is not finite"
LOSSES_ZERO_OVER_ZERO = "the losses compared are all 0, and 0/0 is no ratio"


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
            reason = LOSSES_ZERO_OVER_ZERO if finite else NOT_FINITE
        known = reason is None
        figures.append(Figure(metric, value if known else None, note if known else reason))
    return figures


_CELLS_AT_A_TIME = 1 << 20


@dataclass(frozen=True, eq=False)
class ClientAverages:
    """Averaged rates of all groups, and the gaps between those shown."""

    disclosure: Disclosure
    """By rows and by clients."""
    clients: NDArray[np.int64]
    """[groups]: clients with scored rows."""
    contributing: NDArray[np.int64]
    """[rates, groups]: clients with a denominator for each of the RATES."""
    rates: NDArray[np.float64]
    """[rates, groups]: the RATES; NaN where fewer than MIN_CLIENTS contribute."""
    figures: tuple[Figure, ...]
    """The METRICS."""


def client_averages(client_counts: NDArray[np.int64], disclosure: Disclosure) -> ClientAverages:
    """The averages of counts per client [clients, groups, 4].

    `disclosure`: of the rates pooled over the same rows. Raises ValueError where it was not
    decided from them.
    """
    groups = client_counts.shape[1]
    disclosure.check(scored_rows(client_counts.sum(axis=0)))
    clients = np.zeros(groups, dtype=np.int64)
    contributing = np.zeros((len(RATES), groups), dtype=np.int64)
    sums = np.zeros((len(RATES), groups))
    step = max(1, _CELLS_AT_A_TIME // max(1, groups))
    for start in range(0, len(client_counts), step):
        block = client_counts[start : start + step]
        rates = group_rates(block)
        clients += np.count_nonzero(scored_rows(block), axis=0)
        contributing += np.count_nonzero(~np.isnan(rates), axis=0)
        sums += np.nansum(rates, axis=0)
    enough = contributing >= MIN_CLIENTS
    rates = np.divide(sums, contributing, out=np.full_like(sums, np.nan), where=enough)
    found = disclosure.of_clients(clients)
    return ClientAverages(
        disclosure=found,
        clients=clients,
        contributing=contributing,
        rates=rates,
        figures=_averaged_figures(rates, found.shown, found.reference),
    )


def _averaged_figures(
    rates: NDArray[np.float64], shown: NDArray[np.bool_], reference: int | None
) -> tuple[Figure, ...]:
    values = rate_gaps(rates, shown, reference=reference).tolist()
    note = left_out_note(len(shown) - int(shown.sum()), len(shown))
    return tuple(
        Figure(metric, None, _why(metric, rates, shown, reference))
        if math.isnan(value)
        else Figure(metric, value, note)
        for metric, value in zip(METRICS, values, strict=True)
    )


def _why(
    metric: str, rates: NDArray[np.float64], shown: NDArray[np.bool_], reference: int | None
) -> str:
    if int(shown.sum()) < 2:
        return "fewer than two groups are left to compare"
    if reference is not None and not shown[reference]:
        return "the reference group is left out"
    without = lacking(rates[:, shown], METRICS[metric].family.name)
    if without:
        return f"in {without} of the groups compared, fewer than two clients have such a rate"
    return ZERO_OVER_ZERO
