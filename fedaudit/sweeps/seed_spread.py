"""How a figure spreads over seeds."""

import math
from collections.abc import Sequence

from typing_extensions import TypedDict

from fedaudit.spec.metrics import SHARES

LEVEL = 0.95


class Spread(TypedDict):
    """A figure over several seeds; null without one, and what needs two of them without a second.

    `low` and `high` bound the mean over all seeds by Student's t at 95 %, and go no further than
    the figure itself can: they say nothing of other clients or other data.
    """

    n: int
    """Seeds that have the figure."""
    mean: float | None
    standard_deviation: float | None
    low: float | None
    high: float | None


def spread(name: str, values: Sequence[float]) -> Spread:
    """Of the values of all seeds that have the figure `name`, as `accuracy` or
    `loss_ratio[sex]`. Infinite ones are none."""
    found = [value for value in values if math.isfinite(value)]
    n = len(found)
    if not n:
        return {"n": 0, "mean": None, "standard_deviation": None, "low": None, "high": None}
    mean = math.fsum(found) / n
    if n == 1:
        return {"n": 1, "mean": mean, "standard_deviation": None, "low": None, "high": None}
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (n - 1))
    bounded = name.partition("[")[0] in SHARES
    half = _student(n - 1) * deviation / math.sqrt(n)
    return {
        "n": n,
        "mean": mean,
        "standard_deviation": deviation,
        "low": max(mean - half, 0.0) if bounded else mean - half,
        "high": min(mean + half, 1.0) if bounded else mean + half,
    }


def _student(freedom: int) -> float:
    """The quantile of Student's t that leaves half of 5 % above it."""
    # Takes a while to import, which commands without a sweep need not wait for.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + LEVEL / 2))
