"""Figures as text, alike wherever a report or a page shows them."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

NO_FIGURE = "–"

_DIGITS = 4
_SMALLEST = 0.001
_MAX_IN_FULL = 1e15


def figure_text(value: float | None) -> str:
    """At most four significant digits, `< 0.001` for less, integers in full with commas; a dash for
    a missing value."""
    return _text(value, ROUND_HALF_EVEN)


def bound_text(value: float | None) -> str:
    """Like `figure_text`, but rounded up: an upper bound on a cost is never shown smaller than it
    is."""
    return _text(value, ROUND_CEILING)


def room_text(value: float | None) -> str:
    """Like `figure_text`, but rounded down: what is left is never shown larger than it is."""
    if value is not None and 0 < value < _SMALLEST:
        return "0"
    return _text(value, ROUND_FLOOR)


def whole_text(value: int | None) -> str:
    """An integer with commas between its thousands."""
    return NO_FIGURE if value is None else f"{value:,}"


def exact_text(value: float | None) -> str:
    """A configured number in full: `1e-06`, `2,500`."""
    if value is None or (value and abs(value) < _SMALLEST):
        return NO_FIGURE if value is None else f"{value:g}"
    return f"{value:,.15g}"


def _text(value: float | None, rounding: str) -> str:
    if value is None or not math.isfinite(value):
        return NO_FIGURE
    if value == int(value) and abs(value) < _MAX_IN_FULL:
        return whole_text(int(value))
    if abs(value) < _SMALLEST:
        return f"< {_SMALLEST}" if value > 0 else f"> -{_SMALLEST}"
    exact = Decimal(str(float(value)))
    last = max(exact.adjusted() - _DIGITS + 1, -_DIGITS)
    kept = exact.quantize(Decimal((0, (1,), last)), rounding=rounding)
    if abs(kept) >= _MAX_IN_FULL:
        return f"{float(kept):.{_DIGITS}g}"
    shown = f"{kept:,f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
