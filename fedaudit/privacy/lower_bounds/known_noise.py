"""The bound for noise whose law is known to be Gaussian: how far a canary moves a release, measured
against the noise beside it.

A release less all that is known of it is a y = s x + noise, x being the sum of the directions that
canaries sent (the coins are ours) and s the length with which a canary comes through. Least squares
give s; what is left gives the deviation of the noise. Their ratio has Student's t distribution off
its centre, exactly, so that the bound holds for any number of canaries, at its significance and not
in the limit. In full view of one release per direction s is the mean of the scores of the canaries
that are there (or the difference of means, where the others send the opposite).

The deviation is measured and not taken from the claim: noise that is half of what is claimed moves
no mean, and would be seen by no comparison of means with the claimed deviation.
"""

import math
from dataclasses import dataclass

from scipy.optimize import brentq
from scipy.stats import nct

_MOST_RATIO = 1e6


@dataclass
class SignalFit:
    """Sums over all numbers that were released, from which the fit follows."""

    product: float = 0.0
    """Of y and x."""
    weight: float = 0.0
    """Of x and x."""
    squares: float = 0.0
    """Of y and y."""
    numbers: int = 0

    def add(self, *, product: float, weight: float, squares: float, numbers: int) -> None:
        """Adds releases."""
        self.product += product
        self.weight += weight
        self.squares += squares
        self.numbers += numbers

    @property
    def length(self) -> float | None:
        """The length with which a canary comes through, least squares; None without a canary."""
        return self.product / self.weight if self.weight > 0 else None

    @property
    def deviation(self) -> float | None:
        """Of the noise; None for fewer than two numbers."""
        if self.numbers < 2:
            return None
        left = self.squares - (self.product**2 / self.weight if self.weight > 0 else 0.0)
        return math.sqrt(max(0.0, left) / (self.numbers - 1))

    def least_ratio(self, significance: float) -> float:
        """A lower bound on length over deviation, wrong with a chance of at most `significance`.

        One-sided: a signal against its own direction is no evidence, and gives 0.
        """
        if self.weight <= 0 or self.numbers < 2 or not self.product > 0:
            return 0.0
        deviation = self.deviation
        if not deviation:
            return _MOST_RATIO
        root = math.sqrt(self.weight)
        statistic = self.product / root / deviation
        return least_center(statistic, self.numbers - 1, significance) / root


def least_center(statistic: float, freedom: int, significance: float) -> float:
    """The smallest centre of Student's t at which so large a statistic is not yet too rare."""

    def excess(center: float) -> float:
        return float(nct.sf(statistic, freedom, center)) - significance

    if excess(0.0) >= 0:
        return 0.0
    return float(brentq(excess, 0.0, statistic * 1.5 + 10, xtol=1e-9))
