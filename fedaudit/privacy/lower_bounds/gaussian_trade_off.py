"""Exact epsilon of Gaussian differential privacy (Dong, Roth and Su 2022, corollary 1; Balle and
Wang 2018, theorem 8): two normal laws of variance 1 whose means lie mu apart."""

import math
from functools import lru_cache

from scipy.optimize import brentq
from scipy.special import log_ndtr

_MOST = 1e6
"""Beyond this mu there is no privacy that a figure could tell apart."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The least delta with which mu-Gaussian differential privacy is (epsilon, delta)-private."""
    if mu <= 0:
        return 0.0
    high = float(log_ndtr(mu / 2 - epsilon / mu))
    low = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # exp(high) - exp(low), also where both are tiny or epsilon is large
    return math.exp(high) * max(0.0, -math.expm1(min(0.0, low - high)))


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon at `delta`; 0 where mu is so small that delta alone covers it.

    Raises ValueError for a delta not within 0 and 1, or a mu that is negative or not a number.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta = {delta} must lie between 0 and 1")
    if not mu >= 0:
        raise ValueError(f"mu = {mu} must not be negative")
    mu = min(mu, _MOST)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    most = mu * mu / 2 + mu * (math.sqrt(2 * math.log(1 / delta)) + 1)
    return float(brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, most, xtol=1e-12))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu whose epsilon at `delta` is at most this one: the inverse."""
    if not epsilon >= 0:
        raise ValueError(f"epsilon = {epsilon} must not be negative")
    high = 1.0
    while high < _MOST and gaussian_epsilon(high, delta) < epsilon:
        high *= 2
    return float(
        brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-12, high, xtol=1e-14, rtol=1e-13)
    )
