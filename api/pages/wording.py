"""Figures, times and names as people read them."""

import math
import re
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

NONE = "–"

_DIGITS = 4
_MAX_IN_FULL = 1e9
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def figure(value: float | None) -> str:
    """Four significant digits, integers in full; a dash for none."""
    return _rounded(value, ROUND_HALF_EVEN)


def cost(value: float | None) -> str:
    """As `figure`, but rounded up: a cost is never shown smaller than it is."""
    return _rounded(value, ROUND_CEILING)


def room(value: float | None) -> str:
    """As `figure`, but rounded down: what is left is never shown larger than it is."""
    return _rounded(value, ROUND_FLOOR)


def small_number(value: float | None) -> str:
    """A constant such as a delta, as it was given: `1e-5`."""
    return NONE if value is None else re.sub(r"e-0+", "e-", f"{value:g}")


def whole(value: int | None) -> str:
    """An integer with its thousands apart."""
    return NONE if value is None else f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def percent(value: float | None) -> str:
    """A share of 1 as a percentage with one decimal."""
    return NONE if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"


def words(name: str) -> str:
    """A name of the vocabulary, for people."""
    return name.replace("_", " ")


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 client`, `2 clients`."""
    return f"{whole(count)} {one if count == 1 else many or one + 's'}"


def file_size(size: int | None) -> str:
    """A number of bytes in decimal units."""
    if size is None:
        return NONE
    value, unit = float(size), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return (
        f"{value:.0f} {_UNITS[unit]}"
        if unit == 0 or value >= 100
        else f"{value:.3g} {_UNITS[unit]}"
    )


def day(time: datetime | None) -> str:
    """The date of a time."""
    return NONE if time is None else f"{time.day} {time:%b %Y}"


def moment(time: datetime | None) -> str:
    """A time to the minute, which is UTC throughout."""
    return NONE if time is None else f"{time.day} {time:%b %Y, %H:%M}"


def iso(time: datetime) -> str:
    """A time for the attribute `datetime`."""
    return time.isoformat(timespec="seconds")


def _rounded(value: float | None, rounding: str) -> str:
    if value is None or not math.isfinite(value):
        return NONE
    if value == int(value) and abs(value) < _MAX_IN_FULL:
        return whole(int(value))
    exact = Decimal(value)
    last = exact.adjusted() - _DIGITS + 1
    kept = exact.quantize(Decimal((0, (1,), last)), rounding=rounding)
    if last >= 0 and abs(kept) < _MAX_IN_FULL:
        return whole(int(kept))
    return f"{float(kept):.{_DIGITS}g}"
