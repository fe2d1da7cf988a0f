"""Gaps between groups, under Fairlearn's names and definitions (version 0.15, `between_groups`).

- demographic parity: selection rates; equal opportunity: true positive rates; equalized odds: the
  worse of the true and the false positive rates (`agg="worst_case"`).
- a difference is the largest rate less the smallest, a ratio the smallest over the largest.
- with a reference group, a difference is the largest distance to that group's rate, and a ratio
  the smallest of lower over higher rate against it (Fairlearn's `to_overall` with the reference
  group in the place of everyone).

Fairlearn answers 0 for the true positive rate of a group without positives, reads a single group
as perfectly fair and gives NaN for 0/0. Here such a figure is None, with the reason. Groups too
small to be shown are left out; the figure then covers the others and its reason says so.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.combination import Combination
from fedaudit.fairness.counts import group_rates, scored_rows
from fedaudit.fairness.suppression import shown_groups

METRICS = (
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equalized_odds_difference",
    "equalized_odds_ratio",
    "equal_opportunity_difference",
    "equal_opportunity_ratio",
)

NO_OUTCOME = "no favourable outcome was declared"
ZERO_OVER_ZERO = "the rates compared are all 0, and 0/0 is no ratio"
_LACKING = {
    "demographic_parity": "scored rows",
    "equalized_odds": "rows with or rows without the favourable outcome",
    "equal_opportunity": "rows with the favourable outcome",
}


class Figure(NamedTuple):
    """One metric. `reason` says why the value is None, or what the value leaves out."""

    metric: str
    value: float | None
    reason: str | None


def gap_values(
    counts: NDArray[np.int64], shown: NDArray[np.bool_], *, reference: int | None = None
) -> NDArray[np.float64]:
    """The METRICS of counts [..., groups, 4] over the shown groups [..., groups]: [..., 6].

    NaN where fewer than two groups are shown, a shown group has no denominator for a rate, the
    reference group (an index) is hidden, or a ratio is 0/0.
    """
    return rate_gaps(group_rates(counts), shown, reference=reference)


def rate_gaps(
    rates: NDArray[np.float64], shown: NDArray[np.bool_], *, reference: int | None = None
) -> NDArray[np.float64]:
    """As `gap_values`, from the RATES of the groups themselves: [..., 3, groups] to [..., 6]."""
    differences, ratios = spread(rates, shown[..., np.newaxis, :], reference)
    values = np.empty((*rates.shape[:-2], len(METRICS)))
    values[..., 0], values[..., 1] = differences[..., 0], ratios[..., 0]
    values[..., 2] = np.maximum(differences[..., 1], differences[..., 2])
    values[..., 3] = np.minimum(ratios[..., 1], ratios[..., 2])
    values[..., 4], values[..., 5] = differences[..., 1], ratios[..., 1]
    values[~comparable(shown, reference), :] = np.nan
    return values


def spread(
    values: NDArray[np.float64], visible: NDArray[np.bool_], reference: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Difference and ratio of values [..., groups] over the visible groups: [...] each.

    Values are not negative. NaN where a visible value is NaN, and for a ratio of 0/0.
    """
    with np.errstate(invalid="ignore"):
        if reference is not None:
            return _against(values, visible, reference)
        high = np.where(visible, values, -np.inf).max(axis=-1)
        low = np.where(visible, values, np.inf).min(axis=-1)
        return high - low, low / high


def comparable(shown: NDArray[np.bool_], reference: int | None) -> NDArray[np.bool_]:
    """Where there are two groups to compare, and the reference group is one: [...]."""
    found: NDArray[np.bool_] = np.count_nonzero(shown, axis=-1) >= 2
    if reference is not None:
        found &= shown[..., reference]
    return found


def _against(
    rates: NDArray[np.float64], visible: NDArray[np.bool_], reference: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    base = rates[..., reference, np.newaxis]
    differences = np.where(visible, np.abs(rates - base), 0.0).max(axis=-1)
    high, low = np.maximum(rates, base), np.minimum(rates, base)
    # Two rates of 0 do not differ: they say nothing, unless every pair is one.
    pairs = np.where(visible & (high != 0), low / high, np.inf)
    ratios = pairs.min(axis=-1)
    return differences, np.where(np.isinf(ratios), np.nan, ratios)


def gaps(
    counts: NDArray[np.int64],
    groups: Sequence[str],
    *,
    minimum_group_size: int,
    reference_group: str | None = None,
    combination: Combination | None = None,
    declared: bool = True,
) -> list[list[Figure]]:
    """The METRICS for each leading index of counts [..., groups, 4].

    `combination`: how the groups of an intersection lie. `declared`: whether some outcome is
    favourable; otherwise there is nothing that was counted. Raises ValueError where the counts do
    not fit the groups or the reference group is none of them.
    """
    if counts.shape[-2:] != (len(groups), 4):
        raise ValueError(
            f"counts have shape {counts.shape} for {len(groups)} groups; give [..., groups, 4]"
        )
    reference = reference_index(groups, reference_group)
    block = counts.reshape(-1, len(groups), 4)
    if not declared:
        return [[Figure(metric, None, NO_OUTCOME) for metric in METRICS] for _ in block]
    shown = shown_groups(
        scored_rows(block), minimum_group_size=minimum_group_size, combination=combination
    )
    return gaps_between(block, shown, reference=reference, rows=scored_rows(block))


def gaps_between(
    block: NDArray[np.int64],
    shown: NDArray[np.bool_],
    *,
    reference: int | None,
    rows: NDArray[np.int64],
) -> list[list[Figure]]:
    """The METRICS of each of several counts [count, groups, 4] over the shown [count, groups].

    `rows` [count, groups]: the scored rows that reasons may tell of.
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


def reference_index(groups: Sequence[str], reference_group: str | None) -> int | None:
    """The position of the reference group. Raises ValueError where there is no such group."""
    if reference_group is None:
        return None
    if reference_group not in groups:
        raise ValueError(f"reference_group {reference_group!r} is no group; name one of the values")
    return list(groups).index(reference_group)


def left_out_note(hidden: int, groups: int) -> str | None:
    """What a figure leaves out; None where that is nothing."""
    if not hidden:
        return None
    return f"{hidden} of {groups} groups left out: too few scored rows, or kept back beside one"


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
        return "the reference group is left out: too few scored rows, or kept back beside one"
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
        family = metric.rsplit("_", 1)[0]
        rates = {"demographic_parity": [0], "equalized_odds": [1, 2], "equal_opportunity": [1]}
        lacking = int(np.isnan(self._rates[rates[family]]).any(axis=0).sum())
        if lacking:
            lack = "lacks" if lacking == 1 else "lack"
            return (
                f"{lacking} of the groups compared {lack} {_LACKING[family]}: a rate is undefined"
            )
        return ZERO_OVER_ZERO
