"""Figures in steps so wide that they do not give back the counts behind them."""

import math

_LADDER = (1, 2, 5, 10)
_SAME = 1e-9
"""Of a step: a figure that lies on one stays there, whatever its last bits."""


def step_of(rows: int, *, base: int) -> float:
    """The width of steps for shares of so many rows: what `base` rows make, or a little more.

    One, two or five times a power of ten; 1 for fewer rows than the base.
    """
    if rows <= base:
        return 1.0
    least = base / rows
    power = 10.0 ** math.floor(math.log10(least))
    return min(1.0, next(power * one for one in _LADDER if power * one >= least * (1 - _SAME)))


def nearest(value: float, step: float) -> float:
    """The nearest whole number of steps."""
    return without_dust(round(value / step) * step)


def outward(low: float, high: float, step: float) -> tuple[float, float]:
    """The interval widened to whole numbers of steps."""
    return (
        without_dust(math.floor(low / step + _SAME) * step),
        without_dust(math.ceil(high / step - _SAME) * step),
    )


def digit_step(value: float) -> float:
    """The step of two significant digits."""
    if value == 0 or not math.isfinite(value):
        return 1.0
    return float(10.0 ** (math.floor(math.log10(abs(value))) - 1))


def without_dust(value: float) -> float:
    """A step, or a difference of decimals, without what binary makes of it: it says nothing, and
    looks exact."""
    return float(f"{value:.12g}")
