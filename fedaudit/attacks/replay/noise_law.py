"""Whether numbers have the distribution that was charged for: tests with p-values.

Distribution functions are compared by Kolmogorov and Smirnov's largest distance, sums of squares
with their chi-square, and what ought to be independent by correlation. Whoever asks takes the
smallest p-value times their number (Bonferroni).
"""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fedaudit.attacks.replay.passed_through import Floats
from fedaudit.privacy.noise.laplace import layer_slices

_AXES = 6
"""So many coordinates of a direction are tested; each has the same distribution."""
_FEW = 30

Tests = Iterator[tuple[str, float]]
"""Names, and p-values."""


def gaussian_law(noise: Floats) -> Tests:
    """Of vectors [vectors, n] of independent standard normal numbers, in the order drawn."""
    if noise.size < _FEW:
        return
    flat = noise.ravel()
    yield "normal numbers", float(stats.kstest(flat, stats.norm.cdf).pvalue)
    total = float(np.square(flat).sum())
    yield "their size", _two_sided(stats.chi2(flat.size), total)
    yield "their mean", _normal(float(flat.sum()) / math.sqrt(flat.size))
    if noise.shape[1] > 1:
        yield "numbers in turn", correlation(noise[:, :-1].ravel(), noise[:, 1:].ravel())


def laplace_law(noise: Floats, sizes: Sequence[int]) -> Tests:
    """Of vectors [vectors, n] with density K exp(-||x||) in each of the layers of these sizes."""
    if len(noise) < _FEW:
        return
    scores = []
    for layer, part in enumerate(layer_slices(sizes)):
        own, n = noise[:, part], sizes[layer]
        norms = np.sqrt(np.square(own).sum(1))
        yield f"norms of layer {layer + 1}", float(stats.kstest(norms, stats.gamma(n).cdf).pvalue)
        scores.append(stats.norm.ppf(np.clip(stats.gamma(n).cdf(norms), 1e-12, 1 - 1e-12)))
        yield from _direction(own / norms[:, None], layer)
    for first, second in combinations(range(len(sizes)), 2):
        name = f"norms of layers {first + 1} and {second + 1}"
        yield name, correlation(scores[first], scores[second])
    for one, other in combinations(layer_slices(sizes), 2):
        width = min(one.stop - one.start, other.stop - other.start)
        left, right = noise[:, one][:, :width], noise[:, other][:, :width]
        yield "directions of two layers", correlation(np.sign(left).ravel(), np.sign(right).ravel())


def _direction(unit: Floats, layer: int) -> Tests:
    n = unit.shape[1]
    if n == 1:
        up = int((unit > 0).sum())
        yield f"signs of layer {layer + 1}", float(stats.binomtest(up, len(unit)).pvalue)
        return
    half = (n - 1) / 2
    for axis in range(min(n, _AXES)):
        # (1 + cosine) / 2 of a uniform direction with a fixed axis.
        values = (1 + unit[:, axis]) / 2
        pvalue = float(stats.kstest(values, stats.beta(half, half).cdf).pvalue)
        yield f"directions of layer {layer + 1}", pvalue
    yield (
        f"diagonals of layer {layer + 1}",
        float(
            stats.kstest((1 + unit.sum(1) / math.sqrt(n)) / 2, stats.beta(half, half).cdf).pvalue
        ),
    )


def correlation(left: Floats, right: Floats) -> float:
    """The p-value of pairs that ought to be independent, of mean zero."""
    scale = float(np.square(left * right).sum())
    if scale == 0:
        return 1.0
    return _normal(float((left * right).sum()) / math.sqrt(scale))


def binomial(successes: int, trials: int, rate: float) -> float:
    """The p-value of a count of independent coins, two-sided."""
    if trials == 0:
        return 1.0
    return float(stats.binomtest(successes, trials, rate).pvalue)


def binomial_spread(counts: NDArray[np.int64], trials: int, rate: float) -> float:
    """The p-value of the spread of counts that ought to be independent binomials.

    The sum of squared standardised counts, taken for normal: there should be hundreds.
    """
    if not 0 < rate < 1:
        return 1.0 if (counts == round(trials * rate)).all() else 0.0
    variance = trials * rate * (1 - rate)
    squares = np.square(counts - trials * rate) / variance
    kurtosis = 3 + (1 - 6 * rate * (1 - rate)) / variance
    return _normal((float(squares.sum()) - len(counts)) / math.sqrt(len(counts) * (kurtosis - 1)))


def turns(memberships: Floats) -> float:
    """The p-value of memberships [turns, members], less their rate, that ought to be drawn anew in
    every turn; members of one turn may depend on each other."""
    both = (memberships[:-1] * memberships[1:]).sum(-1)
    return correlation(both, np.ones(len(both)))


def _two_sided(law: "stats.rv_continuous", value: float) -> float:
    return min(1.0, 2 * float(min(law.cdf(value), law.sf(value))))


def _normal(score: float) -> float:
    return 2 * float(stats.norm.sf(abs(score)))
