"""The unsampled Gaussian mechanism without any bound (Balle and Wang 2018, theorem 8)."""

import math

from scipy.optimize import brentq
from scipy.stats import norm


def exact_delta(epsilon: float, noise: float) -> float:
    """The delta of one release; `noise`: standard deviation over the distance of the sums."""
    shift = 0.5 / noise
    above = norm.cdf(shift - epsilon * noise)
    return float(above - math.exp(epsilon + norm.logcdf(-shift - epsilon * noise)))


def exact_epsilon(delta: float, noise: float) -> float:
    """The epsilon of one release."""
    if exact_delta(0.0, noise) <= delta:
        return 0.0
    return float(brentq(lambda epsilon: exact_delta(epsilon, noise) - delta, 0.0, 1e4, xtol=1e-13))
