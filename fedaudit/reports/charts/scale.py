"""From values to positions on an axis, and the ticks that it shows."""

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

_MAX_VALUE = 1e300
"""Larger values are drawn at this position, so that no difference of two values overflows."""
_FLAT = 1e-5
"""Values whose relative difference is smaller are drawn as equal: ticks have six digits, or four
before a power of ten."""
_FLAT_POWER = 1e-3
_MANY_DECADES = 100.0


@dataclass(frozen=True)
class Scale:
    """A linear or logarithmic axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The position of a value; a value outside the axis is drawn on its edge."""
        share = (self._place(value) - self._place(self.low)) / (
            self._place(self.high) - self._place(self.low)
        )
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def texts(self) -> tuple[str, ...]:
        """The labels of the ticks."""
        return tick_texts(self.ticks, logarithmic=self.logarithmic)

    def _place(self, value: float) -> float:
        bounded = min(_MAX_VALUE, max(-_MAX_VALUE, value))
        return math.log10(max(bounded, self.low)) if self.logarithmic else bounded


def value_scale(
    values: Iterable[float], *, start: float, end: float, whole: tuple[float, float] | None = None
) -> Scale:
    """An axis that covers these values and begins and ends at a tick.

    Logarithmic where all values are positive and the largest is at least a hundred times the
    smallest. `whole` widens the axis and keeps it linear: (0, 1) for a share.
    """
    found = [min(_MAX_VALUE, max(-_MAX_VALUE, value)) for value in values]
    if whole is not None:
        found += whole
    low, high = min(found), max(found)
    if whole is None and low > 1 / _MAX_VALUE and high / low > _MANY_DECADES:
        return _decades(low, high, start, end)
    size = max(abs(low), abs(high))
    if high - low <= (_FLAT if _plain(size) else _FLAT_POWER) * size or high - low < 1 / _MAX_VALUE:
        margin = size / 10 if size > 1 / _MAX_VALUE else 1.0
        low, high = low - margin, high + margin
    step = _step((high - low) / 4)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(number * step for number in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], start, end, ticks)


def round_scale(first: int, last: int, *, start: float, end: float) -> Scale:
    """An axis of rounds, whose ticks are whole numbers."""
    if first == last:
        return Scale(first - 1, first + 1, start, end, (float(first),))
    step = max(1.0, _step((last - first) / 5))
    ticks = [number * step for number in range(math.ceil(first / step), int(last // step) + 1)]
    if ticks and ticks[0] - first > 0.4 * step:
        ticks.insert(0, float(first))
    return Scale(first, last, start, end, tuple(ticks))


def tick_texts(ticks: tuple[float, ...], *, logarithmic: bool = False) -> tuple[str, ...]:
    """Labels with the same number of decimals; powers of ten for the very large and small."""
    most = max(map(abs, ticks))
    if logarithmic:
        return tuple(f"{tick:g}" if _plain(tick) else _power(tick, 0) for tick in ticks)
    step = min((b - a for a, b in itertools.pairwise(ticks)), default=1.0)
    place = math.floor(math.log10(step) + 1e-9)
    if _plain(most):
        return tuple(f"{tick + 0.0:.{max(0, -place)}f}".replace("-", "−") for tick in ticks)
    decimals = max(0, math.floor(math.log10(most) + 1e-9) - place)
    return tuple(_power(tick, decimals) for tick in ticks)


def _plain(value: float) -> bool:
    return 1e-3 <= value < 1e6


def _power(value: float, decimals: int) -> str:
    """`1.5e6` and `−2e−4`."""
    if value == 0:
        return "0"
    number, power = f"{value:.{decimals}e}".split("e")
    return f"{number}e{int(power)}".replace("-", "−")


def _step(least: float) -> float:
    """The smallest number of the form 1, 2 or 5 times a power of ten that is at least this
    value."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def _decades(low: float, high: float, start: float, end: float) -> Scale:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first) / 5))
    ticks = tuple(10.0**power for power in range(first, last + 1, every))
    return Scale(10.0**first, 10.0**last, start, end, ticks, logarithmic=True)
