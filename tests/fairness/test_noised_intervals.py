"""Intervals of gaps from counts with noise cover the gap in the population.

A hundred repeats draw people anew from a population with known rates, count them, add the noise
that the project draws, and ask each interval of 95 %. At least 93 must cover. Seeds are fixed; an
interval that covered with a chance of just 0.95 would fall short by chance in 13 % of seeds, and
these, which cover more, did so in none of those tried.
"""

import math
from fractions import Fraction
from itertools import permutations
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from fedaudit.fairness.gaps import group_rates, rate_gaps
from fedaudit.fairness.noised_counts import (
    NoisedCounts,
    bounded_counts,
    noised_intervals,
    rate_bounds,
    share_difference_bounds,
)
from fedaudit.privacy.count_release import CountRelease, IntegerDraws, count_release, drawn_integers
from fedaudit.randomness import CounterSource, Purpose
from fedaudit.reports.sections.fairness import noised_gain
from fedaudit.spec.metrics import COUNTS, METRICS, RATES
from fedaudit.spec.parse import parse_spec
from tests.training.specs import groups_spec

REPEATS = 100
LEAST = 93
SIZES = (900, 500, 300)
# True and false positives, true and false negatives, as shares of each group's people.
UNEQUAL = np.array([[0.45, 0.1, 0.35, 0.1], [0.3, 0.1, 0.4, 0.2], [0.2, 0.15, 0.45, 0.2]])
EQUAL = np.tile(UNEQUAL[:1], (3, 1))
MAX_ROWS = 4


def release(epsilon: float, mechanism: str, unit: str) -> CountRelease:
    noise = {"mechanism": mechanism, "epsilon": epsilon, "unit": unit}
    if mechanism == "gaussian":
        noise["delta"] = 1e-5
    if unit == "client":
        noise["max_rows_per_client"] = MAX_ROWS
    spec = groups_spec(training__hypotheses=1, fairness__noise=noise)
    found = count_release(parse_spec(spec))
    assert found is not None
    return found


def people(shares: np.ndarray, unit: str, generator: np.random.Generator) -> np.ndarray:
    """Counts of clients [clients, groups, 4]; with the unit `client` all rows of one are alike,
    and some have more than count."""
    each = 1 if unit == "record" else 3
    found = []
    for group, size in enumerate(SIZES):
        clients = size // each
        rows = np.ones(clients, int) if unit == "record" else generator.integers(1, 7, clients)
        kinds = generator.choice(4, size=clients, p=shares[group])
        counts = np.zeros((clients, len(SIZES), 4), dtype=np.int64)
        counts[np.arange(clients), group, kinds] = rows
        found.append(counts)
    return np.concatenate(found)


def noised(clients: np.ndarray, found: CountRelease, seed: int) -> NoisedCounts:
    most = found.max_rows if found.unit == "client" else 10**6
    counts = bounded_counts(clients, max_rows=most, generator=np.random.default_rng(seed))
    draws = IntegerDraws(CounterSource(seed), purpose=Purpose.COUNT_NOISE, round_=0)
    gaussian = found.mechanism == "gaussian"
    noise = drawn_integers(draws, shape=counts.shape, scale=found.scale, gaussian=gaussian)
    return counted(counts + noise, found.deviation, found.mechanism, found.max_rows)


def counted(counts: Any, deviation: float, tail: Any, max_rows: int = 1) -> NoisedCounts:
    """Counts of the attribute a, as they were published."""
    return NoisedCounts(counts={"a": counts}, deviation=deviation, tail=tail, max_rows=max_rows)


@pytest.mark.parametrize(
    ("unit", "mechanism", "epsilon", "shares"),
    [
        ("client", "discrete-laplace", 0.1, UNEQUAL),
        ("client", "discrete-laplace", 2.94, UNEQUAL),
        ("client", "gaussian", 1.0, UNEQUAL),
        ("client", "gaussian", 1.0, EQUAL),
        ("record", "discrete-laplace", 1.0, EQUAL),
        ("record", "gaussian", 0.1, UNEQUAL),
        ("record", "gaussian", 2.94, UNEQUAL),
    ],
)
def test_intervals_cover_the_gap_in_the_population(unit, mechanism, epsilon, shares):
    reference = 1 if mechanism == "gaussian" else None
    found, shown = release(epsilon, mechanism, unit), np.ones(3, dtype=np.bool_)
    whole = (shares * 10**6).round().astype(np.int64)
    gaps = rate_gaps(group_rates(whole), shown, reference=reference)
    truth = dict(zip(METRICS, gaps, strict=True))
    covered = dict.fromkeys(METRICS, 0)
    generator = np.random.default_rng(41)
    for seed in range(REPEATS):
        published = noised(people(shares, unit, generator), found, seed)
        intervals = noised_intervals(
            published.counts["a"], published, shown, reference=reference, level=0.95
        )
        for metric, interval in intervals.items():
            assert not isinstance(interval, str)
            assert 0 <= interval.low <= interval.high <= 1
            covered[metric] += interval.low <= truth[metric] <= interval.high
    assert min(covered.values()) >= LEAST, covered


@pytest.mark.parametrize(
    ("unit", "mechanism", "epsilon"),
    [
        ("client", "discrete-laplace", 0.1),
        ("client", "gaussian", 2.94),
        ("record", "discrete-laplace", 2.94),
        ("record", "gaussian", 0.1),
    ],
)
def test_intervals_cover_the_gain_and_the_share_in_the_population(unit, mechanism, epsilon):
    found, generator = release(epsilon, mechanism, unit), np.random.default_rng(43)
    # Each client counts the same on average, whatever its group.
    true = np.average(UNEQUAL, axis=0, weights=[size // 3 for size in SIZES])
    gain = min(true[2] - true[3], true[0] - true[1])
    share = max(true[:2].sum(), true[2:].sum())
    covered = np.zeros(2, dtype=int)
    for seed in range(REPEATS):
        drawn = noised_gain(noised(people(UNEQUAL, unit, generator), found, seed), hypotheses=1)
        ends = np.array([drawn.gain_interval(0.95), drawn.share_interval(0.95)])
        covered += (ends[:, 0] <= (gain, share)) & ((gain, share) <= ends[:, 1])
    assert covered.min() >= LEAST, covered


def test_several_hypotheses_leave_one_end_open() -> None:
    found = release(2.94, "discrete-laplace", "record")
    counts = noised(people(UNEQUAL, "record", np.random.default_rng(2)), found, 3)
    one, two = (noised_gain(counts, hypotheses=k) for k in (1, 2))
    assert two.gain_interval(0.95) == (-1.0, one.gain_interval(0.95)[1])
    assert two.share_interval(0.95) == (one.share_interval(0.95)[0], 1.0)


def test_counts_that_are_all_noise_say_nothing() -> None:
    published = counted(np.array([[-60, 3, 2, 1], [0, 0, 0, 0]]), 40.0, "discrete-laplace")
    low, high = rate_bounds(published.counts["a"], "true_positive_rate", published, share=0.05)
    assert (low == 0).all()
    assert (high == 1).all()


def test_a_scale_is_exact() -> None:
    assert release(0.1, "discrete-laplace", "client").scale == MAX_ROWS / Fraction(0.1)


def test_a_difference_of_shares_ends_where_noise_no_longer_explains_it() -> None:
    """The formula by the weights of the four counts in more - less - d rows."""
    counts, deviation, tolerance = np.array([420, 90, 300, 190]), 25.0, 1e-9
    given = counted(counts, deviation, "gaussian")
    more, less = COUNTS[0], COUNTS[1]
    low, high = share_difference_bounds(counts, more=more, less=less, noised=given, share=0.05)
    most = counts.sum() + 1.959964 * 2 * deviation

    def explained(place: float) -> bool:
        weights = np.array([1, -1, 0, 0]) - place
        variance = most * (1 - place**2) + deviation**2 * (weights**2).sum()
        return abs(weights @ counts) - 1 <= 1.959964 * math.sqrt(variance)

    step = 2 / 8000  # of the places that are tried; an end is the next one outside
    assert explained(low + step + tolerance)
    assert not explained(low - tolerance)
    assert explained(high - step - tolerance)
    assert not explained(high + tolerance)


@pytest.mark.parametrize("tail", ["gaussian", "discrete-laplace"])
@pytest.mark.parametrize("reference", [None, 1])
@pytest.mark.parametrize("seed", range(2))
def test_gaps_are_those_of_rates_that_noise_explains(tail, reference, seed) -> None:
    """An end of a rate is the next place outside those that the noise explains; a gap is the widest
    that two groups' ends allow, and the least."""
    random, level = np.random.default_rng(seed), 0.9
    counts = random.integers(-20, 400, (4, 4))
    noised = counted(counts, 9.0, tail, 1 + seed)
    shown = np.array([True, True, seed != 1, False])
    found = noised_intervals(counts, noised, shown, reference=reference, level=level)
    pairs = [
        (one, other)
        for one, other in permutations(np.flatnonzero(shown), 2)
        if reference in (None, one, other)
    ]
    for name, metric in METRICS.items():
        share = (1 - level) / (4 * len(metric.family.rates))
        wide = NormalDist().inv_cdf(1 - share / 2)
        if tail == "discrete-laplace":
            wide = max(wide, -math.log(share) / math.sqrt(2))
        allowed = []
        for rate in metric.family.rates:
            above = [COUNTS.index(one) for one in RATES[rate].numerator]
            below = [COUNTS.index(one) for one in RATES[rate].denominator]
            below = [place for place in below if place not in above]
            ends = []
            for own in counts:
                over, rest = own[above].sum(), own[below].sum()
                deviation = noised.deviation * math.sqrt(len(above) + len(below))
                most = max(0.0, over + rest + wide * deviation)
                places = np.arange(4001) / 4000
                variance = noised.max_rows * most * places * (1 - places) + noised.deviation**2 * (
                    len(above) * (1 - places) ** 2 + len(below) * places**2
                )
                off = np.abs((1 - places) * over - places * rest) - noised.max_rows / 2
                kept = np.flatnonzero(off <= wide * np.sqrt(variance))
                first, last = (kept[0], kept[-1]) if len(kept) else (0, 4000)
                ends.append((places[max(0, first - 1)], places[min(4000, last + 1)]))
            for one, other in pairs:
                (low, high), (least, most) = ends[one], ends[other]
                if metric.kind == "difference":
                    allowed.append((low - most, high - least))
                else:
                    allowed.append((low / most if most else 0.0, high / least if least else 1.0))
        lows, highs = np.transpose(allowed)
        worst = max(0.0, lows.max()), highs.max()
        if metric.kind != "difference":
            worst = lows.min(), min(1.0, highs.min())
        assert (found[name].low, found[name].high) == pytest.approx(worst, abs=1e-9), name
