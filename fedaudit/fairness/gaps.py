"""Gaps between groups, under Fairlearn's names and definitions (version 0.15, `between_groups`).

Which gaps there are is in `fedaudit.spec.metrics`, how they are computed in `metrics`.

Fairlearn answers 0 for the true positive rate of a group without positives, reads a single group
as perfectly fair and gives NaN for 0/0. Here such a figure is None, with the reason. Groups that
are not disclosed are left out; the figure then covers the others and its reason says so.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.counts import scored_rows
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.metrics import group_rates, lacking, rate_gaps
from fedaudit.spec.metrics import METRICS

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
