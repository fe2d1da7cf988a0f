"""Figures as text, alike wherever a report or a page shows them, and in steps; Markdown."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

NO_FIGURE = "–"
UNBOUNDED = "unbounded"
"""Never "none", a dash or a blank, all of which read as no cost beside the costs of other runs."""

_DIGITS = 4
_SMALLEST = 0.001
_MAX_IN_FULL = 1e15
SENTENCE = 40
"""A text of more characters is no figure."""


def figure_text(value: float | None) -> str:
    """At most four significant digits, `< 0.001` for less, integers in full with commas; a dash for
    a missing value."""
    return _text(value, ROUND_HALF_EVEN)


def interval_text(interval: Mapping[str, Any] | None) -> str:
    """The interval from its low end to its high one; a dash where there is none."""
    if interval is None:
        return NO_FIGURE
    return f"{figure_text(interval['low'])} to {figure_text(interval['high'])}"


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


def round_step(least: float) -> float:
    """The smallest number of the form 1, 2 or 5 times a power of ten that is at least this value,
    up to rounding."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


_SAME = 1e-9
"""Share of a step: a figure on a step stays there, whatever its last bits."""


def step_of(rows: int, *, base: int) -> float:
    """The width of steps for shares of so many rows: the share of `base` rows, or a little more. It
    is one, two or five times a power of ten, and 1 for fewer rows than the base."""
    return 1.0 if rows <= base else min(1.0, round_step(base / rows))


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
    """A step, or a difference of decimals, without binary rounding errors, which look exact and
    mean nothing."""
    return float(f"{value:.12g}")


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


@dataclass(frozen=True)
class FigureTable:
    """A table of texts; the first cell of a row is its header. A last column `Note` may have empty
    cells."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    remark: str = ""

    @property
    def words(self) -> set[int]:
        """The columns, by their places, that have sentences."""
        return {
            place
            for place, name in enumerate(self.head)
            if name == "Note" or any(len(row[place]) > SENTENCE for row in self.rows)
        }

    @property
    def empty(self) -> bool:
        """Whether no row has a figure before its note: a sentence then takes its place."""
        return all(cell == NO_FIGURE for row in self.rows for cell in row[1:-1])

    def filled(self) -> "FigureTable":
        """The table without columns of dashes alone, which the remark names. The first column and
        the last stay."""
        inner = range(1, len(self.head) - 1)
        empty = [place for place in inner if all(row[place] == NO_FIGURE for row in self.rows)]
        if not empty or not self.rows:
            return self
        kept = [place for place in range(len(self.head)) if place not in empty]
        named = ", ".join(self.head[place].lower() for place in empty)
        return replace(
            self,
            head=[self.head[place] for place in kept],
            rows=[[row[place] for place in kept] for row in self.rows],
            remark=f"{self.remark} Not known of any row: {named}.".strip(),
        )


# An underscore between letters or digits has no effect in Markdown.
_MARKS = re.compile(r"[\\`*\[\]{}<>&$|#~]|(?<![^\W_])_|_(?![^\W_])")


def plain(text: str) -> str:
    """The text on one line, every mark of Markdown, HTML and LaTeX escaped."""
    return _MARKS.sub(r"\\\g<0>", " ".join(text.split()))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A table of cells that are already Markdown."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def number(value: float) -> str:
    """A figure for a sentence."""
    return f"{value:.6g}"


def at_most(value: float, *, digits: int = 6) -> str:
    """An upper bound for a sentence: rounded up, never below the figure that was shown.

    A number that few digits can express is stated unchanged: 2.2 stays, although in binary it is
    a little higher.
    """
    nearest = f"{value:.{digits}g}"
    if float(nearest) >= value:
        return nearest
    context = Context(prec=digits, rounding=ROUND_CEILING)
    return f"{float(context.create_decimal_from_float(value)):.{digits}g}"
