"""Rates of groups and the gaps between them, as the table in `fedaudit.spec.metrics` has them.

- a difference is the largest rate less the smallest, a ratio the smallest over the largest.
- with a reference group, a difference is the largest distance to that group's rate, and a ratio
  the smallest of lower over higher rate against it (Fairlearn's `to_overall` with the reference
  group in the place of everyone).
- of a family with several rates the worst gap counts (Fairlearn's `agg="worst_case"`).
"""

from collections.abc import Callable
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.spec.metrics import COUNTS, FAMILIES, METRICS, RATES, Count, Kind


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
