"""Whether what a mechanism drew has the distribution it claims, as one p-value; and the power.

Every check compares a scalar statistic with its claimed distribution by the largest distance of
their distribution functions (Kolmogorov and Smirnov; conservative where the statistic is discrete),
or a count with its binomial. The p-value is Bonferroni's over the checks of a mechanism.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FALSE_ALARM = 1e-6
"""Of one verdict: a correct mechanism is rejected for one seed in a million."""

Numbers = NDArray[np.float64]
Checks = dict[str, tuple[Numbers, Callable[[Numbers], Numbers]]]
"""By name: independent draws of a statistic, and its claimed distribution function."""


def laplace_checks(noise: Numbers, *, epsilon: float) -> Checks:
    """Of noise [draws, n] with density K exp(-epsilon ||x||)."""
    n = noise.shape[1]
    norm = np.linalg.norm(noise, axis=1)
    checks: Checks = {"norm": (norm, stats.gamma(n, scale=1 / epsilon).cdf)}
    unit = noise[:, 0] / np.where(norm > 0, norm, 1.0)
    if n == 1:
        checks["component"] = (noise[:, 0], stats.laplace(scale=1 / epsilon).cdf)
    else:
        # (1 + cosine) / 2 of a uniform direction with any fixed axis.
        half = (n - 1) / 2
        checks["direction"] = ((1 + unit) / 2, stats.beta(half, half).cdf)
    return checks


def looks_right(checks: Checks) -> float:
    """The p-value of all checks together."""
    smallest = min(_pvalue(*check) for check in checks.values())
    return min(1.0, smallest * len(checks))


def power(checks: Checks) -> float:
    """A lower bound on the chance that a mechanism which gives such draws is caught.

    Of `draws` draws the empirical distribution function at the worst point is the mean of as many
    zeros and ones, so that it misses its own mean by t with a chance of at most 2 exp(-2 draws t^2)
    (Hoeffding). Its mean is known but for another such t, from the same draws: allowed for with
    one chance in a thousand million.
    """
    best = 0.0
    for values, claimed in checks.values():
        draws = len(values)
        unsure = math.sqrt(math.log(2 / 1e-9) / (2 * draws))
        needed = stats.kstwo(draws).isf(FALSE_ALARM / len(checks))
        slack = _distance(values, claimed) - unsure - needed
        if slack > 0:
            best = max(best, 1 - 2 * math.exp(-2 * draws * slack**2) - 1e-9)
    return best


def _distance(values: Numbers, claimed: Callable[[Numbers], Numbers]) -> float:
    """The largest distance of the distribution functions, just before and at each value."""
    places, counts = np.unique(values, return_counts=True)
    at = np.cumsum(counts) / len(values)
    below = claimed(np.nextafter(places, -np.inf))
    distances = [np.abs(at - claimed(places)), np.abs(at - counts / len(values) - below)]
    return float(np.max(distances))


def _pvalue(values: Numbers, claimed: Callable[[Numbers], Numbers]) -> float:
    return float(stats.kstwo(len(values)).sf(_distance(values, claimed)))
