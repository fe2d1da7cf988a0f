"""How sure a gap is that was computed from counts with noise.

Each rate has an interval of its own, and the gap's is what these allow: the gap between the groups'
rates *in the population* lies in it wherever every rate lies in its own, which is made to happen
with the level asked for (Bonferroni). So it covers gaps of 0 too, among many groups as well.

A rate's interval holds every p that the counts do not contradict (Fieller 1954, with the variance
that p implies, as in Wilson 1927): for a numerator N and the rest M of the denominator, (1 - p) N -
p M has mean 0, and the variance of drawing rows anew plus that of the noise. Rows of one unit may
be all alike, so the first is taken times the rows that a unit may have: no clustering makes it
larger. Discrete Laplace noise has heavier tails than normal; its own quantile is used where that is
larger. Half a row, times the rows of a unit, makes up for counts being whole.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.intervals import Interval, odds
from fedaudit.fairness.published_counts import NoisedCounts
from fedaudit.spec.metrics import COUNTS, METRICS, RATES, Kind

_PLACES = np.linspace(0.0, 1.0, 4001)
"""The rates that are tried; ends are moved outward to the next one."""
_DIFFERENCES = np.linspace(-1.0, 1.0, 8001)
"""The differences of two shares that are tried."""
METHOD = "noised-counts"

Bounds = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Lower and upper ends, [groups] each."""


def noised_intervals(
    counts: NDArray[np.int64],
    noised: NoisedCounts,
    shown: NDArray[np.bool_],
    *,
    reference: int | None,
    level: float,
) -> dict[str, Interval]:
    """The interval of each of METRICS, from counts with noise [groups, 4] as they were drawn.

    `shown` [groups]: the groups compared. `level`: coverage of the population's gap, at least.
    """
    pairs = _pairs(np.flatnonzero(shown), reference)
    found = {}
    for name, metric in METRICS.items():
        if not pairs:
            found[name] = Interval(None, None, "fewer than two groups are left to compare")
            continue
        rates = metric.family.rates
        # Of all groups: noise took part in deciding which of them are shown.
        share = (1 - level) / (len(rates) * len(counts))
        bounds = [rate_bounds(counts, rate, noised, share=share) for rate in rates]
        found[name] = _gap(bounds, pairs, metric.kind)
    return found


def rate_bounds(
    counts: NDArray[np.int64], rate: str, noised: NoisedCounts, *, share: float
) -> Bounds:
    """An interval of one of RATES for each group, which misses with a chance of `share` at most;
    NaN where a rate that is no share has no upper end."""
    above = [COUNTS.index(count) for count in RATES[rate].numerator]
    below = [
        COUNTS.index(count)
        for count in RATES[rate].denominator
        if count not in RATES[rate].numerator
    ]
    over = counts[:, above].sum(axis=1, dtype=np.float64)[:, np.newaxis]
    rest = counts[:, below].sum(axis=1, dtype=np.float64)[:, np.newaxis]
    wide, noise = _critical(share, noised), noised.deviation**2
    rows = np.maximum(0.0, over + rest + wide * np.sqrt(noise * (len(above) + len(below))))
    variance = noised.max_rows * rows * _PLACES * (1 - _PLACES)
    variance += noise * (len(above) * (1 - _PLACES) ** 2 + len(below) * _PLACES**2)
    off = np.abs((1 - _PLACES) * over - _PLACES * rest) - 0.5 * noised.max_rows
    bounds = _ends(off <= wide * np.sqrt(variance), _PLACES)
    if RATES[rate].is_share:
        return bounds
    low, high = map(odds, bounds)
    return low, high


def share_difference_bounds(
    counts: NDArray[np.int64], *, more: str, less: str, noised: NoisedCounts, share: float
) -> tuple[float, float]:
    """An interval of (more - less) / rows in the population, which misses with a chance of `share`
    at most.

    `counts` [4] of all rows, two of COUNTS named; `noised.deviation` is that of each of them. As
    for a rate: more - less - d rows has mean 0, and a row's part in it a variance of 1 - d^2 at
    most. A row that moves from one count to the other moves it by two, half of which makes up for
    counts being whole.
    """
    ahead, behind = (float(counts[COUNTS.index(name)]) for name in (more, less))
    total, tried = float(counts.sum()), _DIFFERENCES
    wide, noise = _critical(share, noised), noised.deviation**2
    rows = max(0.0, total + wide * math.sqrt(noise * len(COUNTS)))
    variance = noised.max_rows * rows * (1 - tried**2)
    variance += noise * ((1 - tried) ** 2 + (1 + tried) ** 2 + (len(COUNTS) - 2) * tried**2)
    off = np.abs(ahead - behind - tried * total) - noised.max_rows
    low, high = _ends((off <= wide * np.sqrt(variance))[np.newaxis], tried)
    return float(low[0]), float(high[0])


def _ends(kept: NDArray[np.bool_], places: NDArray[np.float64]) -> Bounds:
    """From the first to the last place kept, of each line [groups, places]; all of them where none
    is: noise then went so far that it fits no place, and nothing is known."""
    kept = kept | ~kept.any(axis=1, keepdims=True)
    first, last = kept.argmax(axis=1), kept.shape[1] - 1 - kept[:, ::-1].argmax(axis=1)
    return places[np.maximum(first - 1, 0)], places[np.minimum(last + 1, len(places) - 1)]


def _critical(share: float, noised: NoisedCounts) -> float:
    """How many standard deviations are passed with a chance of `share` at most, on either side."""
    normal = -NormalDist().inv_cdf(share / 2)  # 1 - share / 2 may round to 1
    if noised.tail == "gaussian":
        return normal
    return max(normal, -math.log(share) / math.sqrt(2))


def _pairs(places: NDArray[np.int64], reference: int | None) -> Sequence[tuple[int, int]]:
    """The pairs of groups whose rates are compared, in both orders."""
    shown: list[int] = places.tolist()
    if reference is not None:
        others = [place for place in shown if place != reference and reference in shown]
        return [pair for one in others for pair in ((one, reference), (reference, one))]
    return [(one, other) for one in shown for other in shown if one != other]


def _gap(bounds: Sequence[Bounds], pairs: Sequence[tuple[int, int]], kind: Kind) -> Interval:
    """The worst gap that the intervals of some rates allow, and the least."""
    one, other = np.array(pairs).T
    if any(np.isnan(high).any() for _, high in bounds):
        return Interval(None, None, "the noise leaves a rate without an upper bound")
    match kind:
        case "difference":
            lows = [float((low[one] - high[other]).max()) for low, high in bounds]
            highs = [float((high[one] - low[other]).max()) for low, high in bounds]
            return Interval(max(0.0, *lows), max(highs), None)
        case "ratio":
            lows = [float(_over(low[one], high[other], 0.0).min()) for low, high in bounds]
            highs = [float(_over(high[one], low[other], 1.0).min()) for low, high in bounds]
            return Interval(min(lows), min(highs), None)
        case _:
            assert_never(kind)


def _over(
    one: NDArray[np.float64], other: NDArray[np.float64], otherwise: float
) -> NDArray[np.float64]:
    """One over the other, not above 1; `otherwise` where the other is 0."""
    found = np.full_like(one, otherwise)
    np.divide(one, other, out=found, where=other > 0)
    return np.minimum(found, 1.0)
