"""What the training clients of each group went through: who bears the cost of training.

Where every client has rows of one group only, a group's figures are over its clients. Where clients
have rows of several groups, a client counts for each of them by its rows: a mean is that of a row
of the group.

These clients are the ones whom a guarantee speaks of, and who took part in which round is often
known: an exact mean is a linear equation in the clients' sensitive values, and a few dozen of them
give every value back. So a mean is given on a grid too coarse for that: its step is several times
what chance, or any one client, can move the group's mean by. It shows that a group pays much more
than the others, and nothing finer. A largest figure cannot be given so: it says of every client
that paid more that it is not of the group.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure, DisclosureRule
from fedaudit.fairness.permutation import Unit, unit_of

_MARGIN = 6.0
"""A step is this many standard errors: a mean that chance alone moved rounds to the overall one."""
_EQUAL = 1e-9
"""Clients whose figures differ by no more than rounding, relative to their mean, are equal."""


@dataclass(frozen=True, eq=False)
class Membership:
    """Which clients belong to which groups, and which groups are disclosed."""

    unit: Unit
    weights: NDArray[np.float64]
    """[clients, groups]: how much a client counts in a group's mean, 0 where it has no rows."""
    disclosure: Disclosure
    """By rows and by clients."""

    def coarse_mean(
        self, figures: NDArray[np.number], *, training_clients: int
    ) -> NDArray[np.float64]:
        """The mean over each group of a figure per client, coarse: [groups]; NaN without rows.

        `figures` [clients], 0 for those that do not train. A mean is the one over all training
        clients, or lies a whole number of steps from it; two significant digits of that are given.
        A step is the standard deviation over training clients times a power of two, and at least
        six times the standard error of the group's mean and what one client can move it by.
        """
        values = figures.astype(np.float64)
        overall = float(values.sum() / training_clients)
        variance = float((values**2).sum() / training_clients) - overall**2
        spread = math.sqrt(max(variance, 0.0))
        found = np.full(self.weights.shape[1], np.nan)
        for group, weights in enumerate(self.weights.T):
            if weights.any():
                shares = weights / weights.sum()
                found[group] = _two_digits(_on_grid(shares, values, overall, spread))
        return found


def _on_grid(
    shares: NDArray[np.float64], values: NDArray[np.float64], overall: float, spread: float
) -> float:
    """The mean of values [clients], weighed by shares [clients], on the grid about `overall`."""
    if spread <= _EQUAL * max(1.0, abs(overall)):
        return overall
    error = math.sqrt(float((shares**2).sum())) * spread
    largest = float((shares * np.abs(values - overall)).max())
    least = max(spread, _MARGIN * error, _MARGIN * largest)
    # The step itself is a fact about the group, so it comes from a grid too.
    step = spread * 2.0 ** math.ceil(math.log2(least / spread))
    return overall + step * round((float(shares @ values) - overall) / step)


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")


def membership(rows: NDArray[np.integer], rule: DisclosureRule) -> Membership:
    """Of rows per client and group [clients, groups]; clients that do not train have none.

    Suppressed are groups with too few rows or clients, and the smallest other where just one would
    be, or few rows together. Within the totals of an intersection's parts they are not looked at:
    whoever shows its figures must show none where one is suppressed.
    """
    unit = unit_of(rows)
    belongs = rows > 0
    pooled, clients = rows.sum(axis=0, dtype=np.int64), np.count_nonzero(belongs, axis=0)
    by_rows = rule.alone().decide(pooled, of="training rows")
    return Membership(
        unit=unit,
        weights=(belongs if unit == "client" else rows).astype(np.float64),
        disclosure=by_rows.of_clients(clients, of="training clients"),
    )
