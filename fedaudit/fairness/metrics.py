"""Counts of groups, their rates and the gaps between these, and how much a gap is.

Counted are true positives, false positives, true negatives and false negatives. "Positive" is the
favourable outcome. Counts are pooled over records, not averaged over clients. Every array of counts
ends in [groups, 4], in the order of `fedaudit.spec.metrics.COUNTS`.

Which rates and gaps there are is in the table in `fedaudit.spec.metrics`.

- a difference is the largest rate less the smallest, a ratio the smallest over the largest.
- with a reference group, a difference is the largest distance to that group's rate, and a ratio
  the smallest of lower over higher rate against it (Fairlearn's `to_overall` with the reference
  group in the place of everyone).
- of a family with several rates the worst gap counts (Fairlearn's `agg="worst_case"`).

There is one threshold in common use, the four fifths of 29 CFR 1607.4 (D), Uniform Guidelines on
Employee Selection Procedures: a selection rate below four fifths of the highest is taken there for
evidence of adverse impact. It is a rule of thumb for selections by employers in the United States.
No standard says which difference of rates is too large, and so no word here calls one small.
"""

from collections.abc import Callable
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.spec.metrics import COUNTS, FAMILIES, METRICS, RATES, Count, Kind


def scored_rows(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of each group: [..., groups]."""
    total: NDArray[np.int64] = counts.sum(axis=-1)
    return total


def _indicators(*of_rates: tuple[Count, ...]) -> NDArray[np.float64]:
    """Which counts are among those of each rate: [rates, 4]."""
    return np.array([[float(count in counts) for count in COUNTS] for counts in of_rates])


_NUMERATORS = _indicators(*(rate.numerator for rate in RATES.values()))
_DENOMINATORS = _indicators(*(rate.denominator for rate in RATES.values()))
_PLACES = {family.name: [list(RATES).index(name) for name in family.rates] for family in FAMILIES}


def group_rates(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """[..., groups, 4] to [..., rates, groups]: the RATES by group, NaN without a denominator."""
    # Counts stay far below 2**53, so these products are exact.
    numbers = counts.swapaxes(-1, -2).astype(np.float64)
    numerators, denominators = _NUMERATORS @ numbers, _DENOMINATORS @ numbers
    missing = np.full_like(numerators, np.nan)
    return np.divide(numerators, denominators, out=missing, where=denominators != 0)


def rate_gaps(
    rates: NDArray[np.float64], shown: NDArray[np.bool_], *, reference: int | None = None
) -> NDArray[np.float64]:
    """The METRICS of the RATES [..., rates, groups] over the shown groups: [..., metrics].

    NaN where fewer than two groups are shown, a shown group lacks one of a metric's rates, the
    reference group (an index) is hidden, or a ratio is 0/0.
    """
    differences, ratios = spread(rates, shown[..., np.newaxis, :], reference)
    values = np.empty((*rates.shape[:-2], len(METRICS)))
    for place, metric in enumerate(METRICS.values()):
        places = _PLACES[metric.family.name]
        values[..., place] = _worst(differences, ratios, places, metric.kind)
    values[~comparable(shown, reference), :] = np.nan
    return values


def lacking(rates: NDArray[np.float64], family: str) -> int:
    """How many of some groups, with the RATES [rates, groups], lack a rate of a family."""
    return int(np.isnan(rates[_PLACES[family]]).any(axis=0).sum())


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


def _worst(
    differences: NDArray[np.float64], ratios: NDArray[np.float64], places: list[int], kind: Kind
) -> NDArray[np.float64]:
    """The worst gap among some rates: [...] of the gaps of all rates [..., rates]."""
    worse: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]
    match kind:
        case "difference":
            gaps, worse = differences, np.maximum
        case "ratio":
            gaps, worse = ratios, np.minimum
        case _:
            assert_never(kind)
    found = gaps[..., places[0]]
    for place in places[1:]:
        found = worse(found, gaps[..., place])
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


FOUR_FIFTHS = 0.8
OF_SELECTION = "demographic_parity_ratio"
"""The metric that the four fifths are about."""
# Rates are ratios of counts, so a ratio meant to be 0.8 may lie below it by a rounding error.
_ROUNDING = 1e-9
_NO_STANDARD = "no standard says which difference is too large"


def is_below_four_fifths(ratio: float) -> bool:
    """Whether a selection rate over the highest one is below four fifths."""
    return ratio < FOUR_FIFTHS - _ROUNDING


def gap_size(metric: str, value: float) -> str:
    """A gap in the words of lists: percentage points of a difference of shares; '' of a gap of
    losses or of other rates, which have no common unit."""
    if metric not in METRICS or not METRICS[metric].is_share:
        return ""
    if METRICS[metric].kind == "difference":
        return f"{100 * value:.2g} percentage points"
    if metric == OF_SELECTION:
        return f"{'below' if is_below_four_fifths(value) else 'at least'} four fifths"
    return ""


def gap_words(metric: str, value: float, *, interval: tuple[float, float] | None) -> str:
    """One sentence on a gap and its interval; '' where `gap_size` has none.

    The interval is of the gap between the two groups that are furthest apart.
    """
    size = gap_size(metric, value)
    if not size:
        return ""
    if metric == OF_SELECTION:
        sure = "" if interval is None else f" (its interval {_ends(interval)})"
        return (
            f"The lowest selection rate is {value:.3g} of the highest{sure}: {size}, the threshold "
            "of 29 CFR 1607.4 (D) for selections by employers; other uses have no standard."
        )
    if interval is None:
        chance = "whether it may be chance is not known"
    elif interval[0] > 0:
        chance = "its interval excludes 0"
    else:
        chance = "its interval reaches 0, so the groups may fare alike"
    return f"That is {size} between two groups: {chance}; {_NO_STANDARD}."


def _ends(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{low:.3g} to {high:.3g}"
