"""How sure a gap is: an interval of each pair of groups, and of the gap what these allow together.

A share has the score interval (Wilson 1927) of as many independent rows as its rows are worth, two
shares the hybrid of their intervals (Newcombe 1998, method 10; for ratios Donner and Zou 2012).
Pairs cover together, over the rates of a family too (Bonferroni). So the gap, the widest of the
pairs' distances, is at least the largest lower end and at most the largest upper one. It reaches 0
wherever no pair is shown to differ.

Rows of one client belong together, so they are worth fewer where clients differ: by a *design
effect*, the variance that clients show (of a ratio estimator, linearised) over that of rows drawn
one by one, with Student's t in the place of the normal quantile since it is estimated (Korn and
Graubard 1998). It is at least 1, and at most what it would be if each client's rows were all alike
(Kish 1965). That is what it is taken for where nothing can be estimated: with fewer than two
clients, or where all rows of a group are predicted alike. Where clients have rows of two groups,
what these have in common cancels in a difference: the hybrid then takes in the correlation of the
two figures over clients (Zou 2007, for ratios Donner and Zou 2012).

An interval shows how far a gap depends on which clients were drawn for validation, given the
trained model; it does not show how another training run would differ. Beside a group's own figures
it discloses one number of each rate, the design effect (of a loss, the standard error), in two
digits, and the correlations in one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.gaps import NO_OUTCOME, RATE_COUNTS, GroupScores, scored_rows
from fedaudit.spec.metrics import FAMILIES, METRICS, Kind

METHOD = "score-pairs"
"""Method for a gap between groups."""
GROUP_METHOD = "score-clustered"
"""Method for the rate of one group."""
GAIN_METHOD = "clustered-mean"
"""Method for what a model gains over a constant."""
MIN_WORTH = 2.0
"""Equally large clients that a group must be worth for how they vary to be estimated."""
MIN_WORTH_OF_GAIN = 5.0
"""As many for a gain: by fewer, Student's t shows none, however large it is."""
NOT_ESTIMABLE = "the rows of a group are of too few clients, or alike, to say how its loss varies"
_FIRST, _SECOND = np.eye(2)
_UNDEFINED = "a group compared lacks the figure"


class Interval(NamedTuple):
    """One interval; where there is none, functions return the reason."""

    low: float
    high: float


class Limits(NamedTuple):
    """A figure of each group and the ends of its interval: [groups] each."""

    value: Floats
    low: Floats
    high: Floats
    correlations: Floats
    """[groups, groups]"""


class Clustered:
    """What clients' numbers of each group add up to, with their products."""

    def __init__(self, own: NDArray[np.number]) -> None:
        """`own` [clients, groups, kinds]. Products of counts stay below 2**53 and are exact; of a
        group with a number that is not finite, all is NaN."""
        numbers = own.astype(np.float64)
        numbers[~np.isfinite(numbers)] = np.nan
        self._own = numbers
        self.totals: Floats = numbers.sum(axis=0)
        """[groups, kinds]"""
        by_group = numbers.transpose(1, 2, 0)
        self._products: Floats = by_group @ by_group.swapaxes(1, 2)

    def squares(self, weights: Floats) -> Floats:
        """The sum over clients of the square of what the kinds make, weighted [groups, kinds]."""
        found: Floats = np.einsum("gi,gij,gj->g", weights, self._products, weights)
        return found

    def skew(self, weights: Floats) -> Floats:
        """The sum of the cube over the `squares` to the power of 3/2."""
        cubes = (np.einsum("cgk,gk->cg", self._own, weights) ** 3).sum(axis=0)
        return _over(cubes, np.maximum(0.0, self.squares(weights)) ** 1.5)

    def worth(self, whole: Floats) -> Floats:
        """How many equally large clients a group's clients are worth, by the kinds in `whole`
        [kinds]: [groups] (Kish)."""
        rows = self.totals @ whole
        return _over(rows**2, self.squares(np.broadcast_to(whole, self.totals.shape)))

    def variance(self, part: Floats, whole: Floats) -> Floats:
        """Variance of the ratio of the kinds in `part` to those in `whole`, [kinds] each: [groups].
        NaN where clients are worth fewer than MIN_WORTH."""
        rows, worth = self.totals @ whole, self.worth(whole)
        ratio = _over(self.totals @ part, rows)
        residuals = self.squares(part - ratio[:, np.newaxis] * whole)
        found = _over(worth * residuals, (worth - 1) * rows**2)
        return np.where(worth >= MIN_WORTH, np.maximum(found, 0.0), np.nan)

    def correlations(self, part: Floats, whole: Floats) -> Floats:
        """Correlations of groups' ratios over clients [groups, groups], rounded down to tenths; 0
        where nothing can be estimated, and between groups that have no client in common."""
        groups = len(self.totals)
        if not (np.count_nonzero(self._own @ whole, axis=1) > 1).any():
            return np.zeros((groups, groups))
        ratio = _over(self.totals @ part, self.totals @ whole)
        residuals = np.einsum("cgk,gk->cg", self._own, part - ratio[:, np.newaxis] * whole)
        together = residuals.T @ residuals
        lengths = np.sqrt(np.diagonal(together))
        found = np.floor(_over(together, lengths[:, np.newaxis] * lengths) * 10 + 1e-9) / 10
        enough = self.worth(whole) >= MIN_WORTH
        known = enough[:, np.newaxis] & enough & np.isfinite(found)
        return np.where(known, np.clip(found, -1.0, 1.0), 0.0)


def rate_intervals(
    client_counts: Ints, disclosure: Disclosure, *, level: float, published: Ints | None = None
) -> dict[str, Interval | str]:
    """The interval of each of METRICS, or why there is none, from counts per client [clients,
    groups, 4]. `level`: coverage, such as 0.95. `published` [groups, 4]: the counts that gaps are
    computed from, where these are not the clients' sums. Raises ValueError where the disclosure was
    not decided from the rows of these counts."""
    if not disclosure.rule.has_favourable_outcome:
        return dict.fromkeys(METRICS, NO_OUTCOME)
    clustered, totals = _shown_counts(client_counts, disclosure, published)
    pairs = compared_pairs(disclosure.shown, disclosure.reference)
    found, kept = dict[str, Interval | str](), {}
    for name, metric in METRICS.items():
        rates = metric.family.rates
        share = _share_of_each(pairs, level, len(rates))
        for rate in rates:
            if (rate, share) not in kept:
                kept[rate, share] = share_limits(clustered, totals, *RATE_COUNTS[rate], share=share)
        found[name] = gap_interval([kept[rate, share] for rate in rates], pairs, metric.kind)
    return found


def intervals_by_group(
    client_counts: Ints, disclosure: Disclosure, *, level: float, published: Ints | None = None
) -> dict[str, tuple[Floats, Floats]]:
    """The ends of the interval of each of RATES, [groups] each, for one group at a time; NaN where
    a group is hidden or lacks the rate. No rates where no two groups are compared. Takes the
    parameters of `rate_intervals` and uses its design effects, which are wide enough for all pairs:
    so these intervals disclose nothing more about clients."""
    pairs = compared_pairs(disclosure.shown, disclosure.reference)
    if not disclosure.rule.has_favourable_outcome or not pairs.any():
        return {}
    clustered, totals = _shown_counts(client_counts, disclosure, published)
    found = {}
    for name, kinds in RATE_COUNTS.items():
        together = max(len(one.rates) for one in FAMILIES if name in one.rates)
        share = _share_of_each(pairs, level, together)
        limits = share_limits(clustered, totals, *kinds, share=share, alone=1 - level)
        ends = np.full((2, len(disclosure.shown)), np.nan)
        ends[:, disclosure.shown] = limits.low, limits.high
        found[name] = (ends[0], ends[1])
    return found


def _shown_counts(
    client_counts: Ints, disclosure: Disclosure, published: Ints | None
) -> tuple[Clustered, Floats]:
    """Counts of the groups shown, by client and as they are published."""
    counts = client_counts.sum(axis=0)
    disclosure.check(scored_rows(counts))
    totals = (counts if published is None else published)[disclosure.shown]
    return Clustered(client_counts[:, disclosure.shown]), totals.astype(np.float64)


def score_intervals(
    scores: GroupScores,
    disclosure: Disclosure,
    *,
    root_mean: bool,
    level: float,
    published: tuple[Ints, Ints] | None = None,
) -> dict[str, Interval | str]:
    """The interval of each of SCORE_METRICS, as `rate_intervals`. `published`: right and scored
    rows [groups] that accuracies are computed from, where these are not the clients' sums."""
    disclosure.check(scores.rows.sum(axis=0))
    pairs = compared_pairs(disclosure.shown, disclosure.reference)
    own = np.stack([scores.loss, scores.rows], axis=-1)[:, disclosure.shown]
    share = _share_of_each(pairs, level, 1)
    limits = mean_limits(Clustered(own), _FIRST, _SECOND, share=share)
    if root_mean:
        value, low, high = map(np.sqrt, limits[:3])
        limits = Limits(value, low, high, limits.correlations)
    accuracy: Interval | str = _UNDEFINED
    if scores.correct is not None:
        clustered = Clustered(np.stack([scores.correct, scores.rows], axis=-1)[:, disclosure.shown])
        totals = clustered.totals
        if published is not None:
            totals = np.stack(published, axis=-1)[disclosure.shown].astype(np.float64)
        rights = share_limits(clustered, totals, _FIRST, _SECOND, share=share)
        accuracy = gap_interval([rights], pairs, "difference")
    return {
        "accuracy_difference": accuracy,
        "loss_difference": gap_interval([limits], pairs, "difference", otherwise=NOT_ESTIMABLE),
        "loss_ratio": gap_interval([limits], pairs, "ratio", otherwise=NOT_ESTIMABLE),
    }


def share_limits(
    clustered: Clustered,
    totals: Floats,
    part: Floats,
    whole: Floats,
    *,
    share: float,
    alone: float | None = None,
) -> Limits:
    """The score interval of the share of the kinds in `part` [kinds] among those in `whole`. It
    misses the truth in a `share` of cases; with `alone`, in that share, but with the wider design
    effect that belongs to `share`. `totals` [groups, kinds]: what the share is computed from;
    `clustered` gives the design effect."""
    rows = totals @ whole
    value = np.minimum(1.0, _over(totals @ part, rows))
    own, worth = clustered.totals @ whole, clustered.worth(whole)
    effects = design_effects(
        _over(clustered.totals @ part, own),
        own,
        variance=clustered.variance(part, whole),
        worth=worth,
        share=share,
    )
    low, high = score_ends(value, _over(rows, effects), share=alone or share)
    return Limits(value, low, high, clustered.correlations(part, whole))


def score_ends(value: Floats, size: Floats, *, share: float) -> tuple[Floats, Floats]:
    """The ends of the score interval of shares [...] of so many rows, drawn one by one, [...]."""
    critical = -NormalDist().inv_cdf(share / 2)
    spread = _over(np.full_like(size, critical**2), size)
    middle = (value + spread / 2) / (1 + spread)
    half = np.sqrt(spread * (value * (1 - value) + spread / 4)) / (1 + spread)
    # In exact arithmetic the value is between the ends.
    low, high = np.minimum(middle - half, value), np.maximum(middle + half, value)
    return np.maximum(0.0, low), np.minimum(1.0, high)


def design_effects(
    value: Floats, rows: Floats, *, variance: Floats, worth: Floats, share: float
) -> Floats:
    """The design effect [...]: a share's variance over that of rows drawn one by one. `value`
    [...]: shares of `rows` [...], with the `variance` that clients show; `worth`: that of the
    clients, in equally large ones. See the module's text."""
    ratio = _over(variance * rows, value * (1 - value))
    ratio *= (_student(worth, share) / NormalDist().inv_cdf(share / 2)) ** 2
    all_alike = _over(rows, worth)
    return up_to_two_digits(np.maximum(1.0, np.fmin(ratio, all_alike)))


def mean_limits(clustered: Clustered, part: Floats, whole: Floats, *, share: float) -> Limits:
    """The interval of the mean of numbers that are not negative, on the scale of its logarithm. NaN
    where clients do not show how it varies."""
    value = _over(clustered.totals @ part, clustered.totals @ whole)
    error = up_to_two_digits(np.sqrt(clustered.variance(part, whole)))
    wide = -_student(clustered.worth(whole), share) * _over(error, value)
    factor = np.exp(np.where(wide > 0, wide, np.nan))
    return Limits(value, value / factor, value * factor, clustered.correlations(part, whole))


def gain_intervals(clustered: Clustered, *, level: float, are_shares: bool) -> list[Interval | str]:
    """Intervals of what each group's rows gained, from `clustered` with the kinds gain and rows, by
    Student's t. `are_shares`: whether a row gains 1, 0 or -1. Two are then added, of which one
    gains and one loses (Bonett and Price 2012), so that rows which were never decided differently
    leave something uncertain: two clients of average size for the end away from 0, and for the end
    towards it two that have as many rows as one independent row is worth. Of losses, which have no
    such bounds, the end towards clients that lie far from the others is moved by what their
    skewness moves the quantile of t (Johnson 1978)."""
    gained, rows = clustered.totals.T
    worth = clustered.worth(np.array([0.0, 1.0]))
    far = near = np.zeros_like(rows)
    if are_shares:
        value, squares = _gain_squares(clustered, far)
        far = _over(rows, worth)
        # No row varies by less than if all that were decided differently were decided alike.
        least = np.abs(value) * (1 - np.abs(value))
        effect = _over(_over(worth * squares, (worth - 1) * rows), least)
        near = np.where(effect > 0, np.clip(effect, 1.0, far), far)
    longer = np.zeros((2, len(rows)))
    if not are_shares:
        value = _over(gained, rows)
        skew = clustered.skew(np.stack([np.ones_like(value), -value], axis=-1))
        moved = up_to_two_digits(np.abs(skew)) * (1 + 2 * _student(worth, 1 - level) ** 2) / 6
        # How many more standard errors the lower and the upper end are away.
        longer = np.where([skew < 0, skew > 0], moved, 0.0)
    ends = [_gain_ends(clustered, added, worth, longer, share=1 - level) for added in (near, far)]
    up = gained > 0
    low, high = (np.where(way, *(one[end] for one in ends)) for end, way in enumerate((up, ~up)))
    return [
        Interval(*found) if math.isfinite(found[0]) else "of too few clients to say how it varies"
        for found in zip(low.tolist(), high.tolist(), strict=True)
    ]


def _gain_squares(clustered: Clustered, added: Floats) -> tuple[Floats, Floats]:
    """The gain of a row, and the sum of squares of clients' gains beyond it, after adding two
    clients with so many rows each."""
    gained, rows = clustered.totals.T
    value = _over(gained, rows + 2 * added)
    squares = clustered.squares(np.stack([np.ones_like(value), -value], axis=-1))
    return value, np.maximum(0.0, squares) + 2 * added**2 * (1 + value**2)


def _gain_ends(
    clustered: Clustered, added: Floats, worth: Floats, longer: Floats, *, share: float
) -> tuple[Floats, Floats]:
    value, squares = _gain_squares(clustered, added)
    rows = clustered.totals[:, 1] + 2 * added
    error = up_to_two_digits(np.sqrt(_over(worth * squares, (worth - 1) * rows**2)))
    error = np.where(worth >= MIN_WORTH_OF_GAIN, error, np.nan)
    below, above = (longer - _student(worth, share)) * error
    return value - below, value + above


def exact_limits(hits: float, trials: float, *, confidence: float) -> tuple[float, float]:
    """The two-sided interval of a share of independent trials (Clopper and Pearson 1934), whose
    coverage is never below `confidence`. Numbers need not be whole. Raises ValueError without a
    trial."""
    from scipy.special import betaincinv

    if not 0 <= hits <= trials or trials <= 0:
        raise ValueError(f"{hits} hits of {trials} trials have no interval")
    tail, misses = (1 - confidence) / 2, trials - hits
    low = 0.0 if hits == 0 else float(betaincinv(hits, misses + 1, tail))
    return low, 1.0 if misses == 0 else float(betaincinv(hits + 1, misses, 1 - tail))


def _student(worth: Floats, share: float) -> Floats:
    """The lower quantile of Student's t with a `share` outside on both sides together."""
    # Only now: it takes a while, and not every report has intervals.
    from scipy.special import stdtrit

    found: Floats = stdtrit(np.maximum(worth - 1, 1.0), share / 2)
    return found


def up_to_two_digits(values: Floats) -> Floats:
    """The next number above with two significant digits; 1, 0 and NaN as they are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        step = 10.0 ** (np.floor(np.log10(values)) - 1)
        found: Floats = np.ceil(values / step - 1e-9) * step
    return np.where(values > 0, found, values)


def compared_pairs(shown: Bools, reference: int | None) -> Bools:
    """Which of the groups `shown` [groups] are compared with which, both ways: [shown, shown]."""
    places = np.flatnonzero(shown)
    apart: Bools = places[:, np.newaxis] != places
    if reference is not None:
        of_reference = places == reference
        apart &= of_reference[:, np.newaxis] | of_reference
    return apart


def _share_of_each(pairs: Bools, level: float, rates: int) -> float:
    """How often the interval of one pair in one rate may miss."""
    return (1 - level) / max(1, rates * int(pairs.sum()) // 2)


def gap_interval(
    rates: Sequence[Limits], pairs: Bools, kind: Kind, *, otherwise: str = _UNDEFINED
) -> Interval | str:
    """The range of the widest gap that the pairs' intervals allow; `otherwise`: why there is none.
    `pairs` [groups, groups]: the pairs compared, in both directions."""
    found = np.concatenate([_LOWER_ENDS[kind](one)[pairs] for one in rates])
    return gap_range(found, kind) if len(found) and np.isfinite(found).all() else otherwise


def gap_range(lower: Floats, kind: Kind) -> Interval:
    """The same from the `lower` ends of all pairs, both ways, in all rates: [any]."""
    least, most = float(lower.min()), float(lower.max())
    match kind:
        case "difference":
            # The upper end of a pair is the lower one the other way round.
            return Interval(max(0.0, most), -least)
        case "ratio":
            return Interval(least, min(1.0, 1 / most if most else 1.0))
        case _:
            assert_never(kind)


def _lower_differences(limits: Limits) -> Floats:
    value, below, above = _distances(limits)
    squares = below**2 + above**2 - 2 * limits.correlations * below * above
    return value - value.T - np.sqrt(np.maximum(0.0, squares))


def _lower_ratios(limits: Limits) -> Floats:
    value, below, above = _distances(limits)
    product = value * value.T - limits.correlations * below * above
    # Donner and Zou (2012), their fraction made larger by the other root: nothing cancels.
    one, other = value**2 - below**2, value.T**2 - above**2
    root = np.sqrt(np.maximum(0.0, product**2 - one * other))
    found = _over(one, product + root)
    nothing = (limits.low == 0)[:, np.newaxis] | (product + root <= 0)
    return np.where(nothing, 0.0, np.maximum(0.0, found))


_LOWER_ENDS: Mapping[Kind, Callable[[Limits], Floats]] = {
    "difference": _lower_differences,
    "ratio": _lower_ratios,
}


def _distances(limits: Limits) -> tuple[Floats, Floats, Floats]:
    """For each pair: one figure, how far its lower end is below it, and how far the other figure's
    upper end is above that figure: [groups, groups] each."""
    value = np.broadcast_to(limits.value[:, np.newaxis], limits.correlations.shape)
    below = np.broadcast_to((limits.value - limits.low)[:, np.newaxis], value.shape)
    return value, below, np.broadcast_to(limits.high - limits.value, value.shape)


def _over(one: Floats, other: Floats) -> Floats:
    """One over the other, NaN where that is 0."""
    return np.divide(one, other, out=np.full_like(one, np.nan), where=other != 0)
