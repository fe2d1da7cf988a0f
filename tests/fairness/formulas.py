"""Intervals computed anew, of one figure at a time; see `fedaudit.fairness.intervals`."""

import math

from scipy.stats import norm, t


def up(value: float) -> float:
    """The next number above with two significant digits."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / step - 1e-9) * step


def student(worth: float, share: float) -> float:
    """The quantile with a `share` outside on both sides together."""
    return float(t.ppf(1 - share / 2, max(1.0, worth - 1)))


def share_ends(
    figure: float,
    rows: float,
    *,
    variance: float,
    worth: float,
    share: float,
    alone: float | None = None,
) -> tuple[float, float]:
    """The score interval of a share of so many rows, by the `variance` over clients that are worth
    so many. It misses with a chance of `alone`, its design effect with a chance of `share`."""
    effect = rows / worth
    if 0 < figure < 1 and worth >= 2:
        times = (student(worth, share) / norm.ppf(1 - share / 2)) ** 2
        effect = min(effect, variance * rows / (figure * (1 - figure)) * times)
    square = norm.ppf(1 - (alone or share) / 2) ** 2 * up(max(1.0, effect)) / rows
    half = math.sqrt(square * (figure * (1 - figure) + square / 4)) / (1 + square)
    middle = (figure + square / 2) / (1 + square)
    return middle - half, middle + half
