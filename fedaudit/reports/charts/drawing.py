"""Drawings in SVG: elements, scales, axes, legends, and marks on horizontal lines."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from markupsafe import Markup, escape

from fedaudit.number_text import FigureTable, round_step

Attribute = str | int | float
Values = tuple[float | None, ...]
WIDTH = 420.0
"""Width of every drawing in SVG units, about one pixel each on a phone, so that text stays legible.
"""
PLOT_LEFT, PLOT_RIGHT = 56.0, WIDTH - 20
_HALF_LETTER = 3.8
SERIES = 6
"""Number of distinct lines and marks; each has a colour, and a dash pattern or shape."""


def element(tag: str, *children: str, **attributes: Attribute | None) -> Markup:
    """One element. A `_` in an attribute's name is written as `-`, and a trailing one is dropped;
    None omits the attribute. Children are escaped unless they are Markup."""
    written = "".join(
        f" {name.rstrip('_').replace('_', '-')}="
        f'"{number(value) if isinstance(value, float) else escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    # Escaped part by part: a format of Markup does so ten times as slowly.
    inner = f">{together(*children)}</{tag}>" if children else "/>"
    return Markup(f"<{tag}{written}{inner}")


def together(*parts: str) -> Markup:
    """Parts one after another, escaped unless they are Markup."""
    return Markup("".join(map(escape, parts)))


def label(content: str, x: float, y: float, *, anchor: str = "start", kind: str = "") -> Markup:
    """A line of text. `anchor`: start, middle or end; `kind`: a class of the style sheet."""
    shown = None if anchor == "start" else anchor
    return element("text", content, x=x, y=y, text_anchor=shown, class_=kind or None)


def fitted(content: str, x: float, y: float, *, width: float, kind: str = "") -> Markup:
    """A line of text around `x`, moved as far as it must be to stay between 0 and `width`."""
    half = min(width / 2, _HALF_LETTER * len(content))
    return label(content, min(width - half, max(half, x)), y, anchor="middle", kind=kind)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """A straight line with a class of the style sheet."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def whisker(x: float, low: float, high: float, kind: str) -> Markup:
    """An upright interval with a cap at each end."""
    caps = [line(x - 4, end, x + 4, end, kind) for end in (low, high)]
    return together(line(x, low, x, high, kind), *caps)


def number(value: float) -> str:
    """A position, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")


def shortened(content: str, characters: int) -> str:
    """A text shortened to fit; an ellipsis marks the cut."""
    return content if len(content) <= characters else f"{content[: characters - 1].rstrip()}…"


@dataclass(frozen=True)
class Drawing:
    """SVG elements in a box from (0, 0) to (width, height)."""

    body: Markup
    height: float
    width: float = WIDTH


_NO_TABLE = FigureTable((), ())


@dataclass(frozen=True)
class Chart:
    """One chart. `name` is unique on its page and has letters, digits and `-` only."""

    name: str
    title: str
    description: str
    """The title of the drawing, for readers who cannot see it."""
    caption: str
    drawing: Drawing
    table: FigureTable = _NO_TABLE
    """Empty where the caption or the section has all its figures already."""

    @property
    def svg(self) -> Markup:
        """The drawing as an image with a title and a description."""
        title, described = f"{self.name}-title", f"{self.name}-description"
        return element(
            "svg",
            element("title", self.title, id=title),
            element("desc", self.description, id=described),
            self.drawing.body,
            viewBox=f"0 0 {number(self.drawing.width)} {number(self.drawing.height)}",
            role="img",
            aria_labelledby=f"{title} {described}",
        )


def joined(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return "".join(parts) if len(parts) < 2 else f"{', '.join(parts[:-1])} and {parts[-1]}"


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
    names: tuple[str, ...] = ()
    """Labels of the ticks, where they are no numbers."""

    def __call__(self, value: float) -> float:
        """The position of a value; a value outside the axis is drawn on its edge."""
        low, high = self._ends
        share = (self._place(value) - low) / (high - low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def texts(self) -> tuple[str, ...]:
        """Labels with the same number of decimals; powers of ten for the very large and small."""
        if self.names:
            return tuple(shortened(one, 14) for one in self.names)
        if self.logarithmic:
            return tuple(f"{one:g}" if _plain(one) else _power(one, 0) for one in self.ticks)
        most = max(map(abs, self.ticks))
        step = min((b - a for a, b in itertools.pairwise(self.ticks)), default=1.0)
        place = math.floor(math.log10(step) + 1e-9)
        if _plain(most):
            decimals = max(0, -place)
            return tuple(f"{one + 0.0:.{decimals}f}".replace("-", "−") for one in self.ticks)
        decimals = max(0, math.floor(math.log10(most) + 1e-9) - place)
        return tuple(_power(one, decimals) for one in self.ticks)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return self._place(self.low), self._place(self.high)

    def _place(self, value: float) -> float:
        bounded = min(_MAX_VALUE, max(-_MAX_VALUE, value))
        return math.log10(max(bounded, self.low)) if self.logarithmic else bounded


def value_scale(
    values: Iterable[float], *, start: float, end: float, whole: tuple[float, float] | None = None
) -> Scale:
    """An axis that covers these values and begins and ends at a tick. Logarithmic where all values
    are positive and the largest is at least a hundred times the smallest. `whole` widens the axis
    and keeps it linear: (0, 1) for a share."""
    found = [min(_MAX_VALUE, max(-_MAX_VALUE, value)) for value in values]
    if whole is not None:
        found += whole
    low, high = min(found), max(found)
    if whole is None and low > 1 / _MAX_VALUE and high / low > _MANY_DECADES:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        every = max(1, math.ceil((last - first) / 5))
        ticks = tuple(10.0**power for power in range(first, last + 1, every))
        return Scale(10.0**first, 10.0**last, start, end, ticks, logarithmic=True)
    size = max(abs(low), abs(high))
    if high - low <= (_FLAT if _plain(size) else _FLAT_POWER) * size or high - low < 1 / _MAX_VALUE:
        margin = size / 10 if size > 1 / _MAX_VALUE else 1.0
        low, high = low - margin, high + margin
    step = round_step((high - low) / 4)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(number * step for number in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], start, end, ticks)


def round_scale(first: int, last: int, *, start: float, end: float) -> Scale:
    """An axis of rounds, whose ticks are whole numbers."""
    if first == last:
        return Scale(first - 1, first + 1, start, end, (float(first),))
    step = max(1.0, round_step((last - first) / 5))
    ticks = [number * step for number in range(math.ceil(first / step), int(last // step) + 1)]
    if ticks and ticks[0] - first > 0.4 * step:
        ticks.insert(0, float(first))
    return Scale(first, last, start, end, tuple(ticks))


def _plain(value: float) -> bool:
    return 1e-3 <= value < 1e6


def _power(value: float, decimals: int) -> str:
    """`1.5e6` and `−2e−4`."""
    if value == 0:
        return "0"
    number, power = f"{value:.{decimals}e}".split("e")
    return f"{number}e{int(power)}".replace("-", "−")


_LEGEND_ROW, _SAMPLE = 18.0, 28.0
_CORNERS = (
    None,
    "-4,-4 4,-4 4,4 -4,4",
    "0,-5.5 5.5,0 0,5.5 -5.5,0",
    "0,-5 5,4 -5,4",
    "0,5 5,-4 -5,-4",
    "-5,-2 5,-2 5,2 -5,2",
)
"""Corners of each series' mark around (0, 0); None for a circle."""


def line_sample(kind: str) -> Markup:
    """A segment of a line, for the legend."""
    return line(0, 0, 22, 0, kind)


def box_sample() -> Markup:
    """The stretch of a row, for the legend."""
    return element("rect", x=0, y=-5, width=22, height=10, class_="box")


def mark(place: int, x: float, y: float) -> Markup:
    """The mark of a series around a point: circle, square, diamond, triangle, and so on."""
    kind, corners = f"d{place % SERIES}", _CORNERS[place % SERIES]
    if corners is None:
        return element("circle", cx=x, cy=y, r=4.2, class_=kind)
    pairs = [map(float, corner.split(",")) for corner in corners.split()]
    points = " ".join(f"{dx + x:.1f},{dy + y:.1f}" for dx, dy in pairs)
    return element("polygon", points=points, class_=kind)


def legend(entries: Sequence[tuple[Markup, str]], *, width: float = WIDTH) -> tuple[Markup, float]:
    """Rows of samples with their names above a drawing, and the height they take. A sample is drawn
    around (0, 0) and moved to its position."""
    parts: list[Markup] = []
    x, y = 0.0, 0.0
    for sample, name in entries:
        shown = shortened(name, 44)
        wide = _SAMPLE + 6.6 * len(shown) + 14
        if x and x + wide > width:
            x, y = 0.0, y + _LEGEND_ROW
        moved = element("g", sample, transform=f"translate({x + 2:.1f} {y + 9:.1f})")
        parts += [moved, label(shown, x + _SAMPLE, y + 13)]
        x += wide
    return together(*parts), y + _LEGEND_ROW if entries else 0.0


def axes(x: Scale, y: Scale, *, across: str, up: str, grid: bool = False) -> Markup:
    """Ticks, lines and titles of both axes; `grid`: whether the ticks of `x` have lines too."""
    parts = [label(up, 0, y.end - 12, kind="axis")]
    for value, shown in zip(y.ticks, y.texts(), strict=True):
        parts.append(line(x.start, y(value), x.end, y(value), "grid"))
        parts.append(label(shown, x.start - 6, y(value) + 4, anchor="end", kind="tick"))
    for value, shown in zip(x.ticks, x.texts(), strict=True):
        end, kind = (y.end, "grid") if grid else (y.start + 4, "axis-line")
        parts.append(line(x(value), y.start, x(value), end, kind))
        parts.append(label(shown, x(value), y.start + 17, anchor="middle", kind="tick"))
    parts.append(line(x.start, y.start, x.end, y.start, "axis-line"))
    middle = (x.start + x.end) / 2
    parts.append(label(across, middle, y.start + 34, anchor="middle", kind="axis"))
    return together(*parts)


_ROW, _UNIT_LINE = 24.0, 14.0
_CHARACTER = 7.2
"""A generous estimate: fonts differ, and text that is cut off is lost."""


@dataclass(frozen=True)
class Row:
    """One row: one value per kind of mark, None for a kind that the row lacks."""

    name: str
    marks: Values
    box: tuple[float, float] | None = None
    """The interval that is drawn as a thick stretch of the row's line."""
    span: tuple[float, float] | None = None
    """The extent of the line, if it goes beyond the outermost marks."""
    stressed: bool = False
    """Whether its name is bold."""


@dataclass(frozen=True)
class Ground:
    """What the rows of a range chart stand on, where it is not plain."""

    width: float = WIDTH
    ticks: tuple[float, ...] = ()
    """Ticks of a logarithmic axis, including both ends; none where the values give the axis."""
    behind: Callable[[Scale, float, float], Markup] | None = None
    """Draws what is behind the rows, between two heights."""
    above: float = 0.0
    """The room above the rows that `behind` may write in."""
    key: Sequence[tuple[Markup, str]] = ()
    """What the legend has after the kinds of marks: samples and their names."""


def range_chart(
    rows: Sequence[Row],
    *,
    kinds: Sequence[str],
    unit: str,
    whole: tuple[float, float] | None,
    ground: Ground | None = None,
) -> Drawing:
    """Marks on horizontal lines, one row each. `kinds` names the marks; `whole` is the least range
    of the axis; for None it is that of the values. Each line of `unit` is one below the axis."""
    on = ground or Ground()
    samples = [(mark(place, 11, 0), name) for place, name in enumerate(kinds)]
    key, top = legend([*samples, *on.key], width=on.width)
    names = [shortened(row.name, int(on.width / 16)) for row in rows]
    left = 16 + _CHARACTER * max(map(len, names))
    top += on.above
    bottom = top + 8 + _ROW * len(rows)
    end = on.width - (WIDTH - PLOT_RIGHT)
    if on.ticks:
        x = Scale(on.ticks[0], on.ticks[-1], left, end, on.ticks, logarithmic=True)
    else:
        found = [one for row in rows for one in (*row.marks, *(row.box or ()), *(row.span or ()))]
        values = [value for value in found if value is not None]
        x = value_scale(values, start=left, end=end, whole=whole)
    parts = [key]
    if on.behind is not None:
        parts.append(on.behind(x, top, bottom))
    for value, shown in zip(x.ticks, x.texts(), strict=True):
        parts.append(line(x(value), top + 4, x(value), bottom, "grid"))
        parts.append(label(shown, x(value), bottom + 15, anchor="middle", kind="tick"))
    middle = (x.start + x.end) / 2
    units = unit.split("\n")
    for place, words in enumerate(units):
        y = bottom + 32 + _UNIT_LINE * place
        parts.append(fitted(words, middle, y, width=on.width, kind="axis"))
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = top + 8 + _ROW * (place + 0.5)
        kind = "here" if row.stressed else ""
        parts.append(label(name, left - 10, y + 4, anchor="end", kind=kind))
        parts.append(_row(row, x, y))
    height = bottom + 24 + _UNIT_LINE * len(units)
    return Drawing(together(*parts), height, on.width)


def _row(row: Row, x: Scale, y: float) -> Markup:
    ends = [*(value for value in row.marks if value is not None), *(row.span or ())]
    parts = [line(x(min(ends)), y, x(max(ends)), y, "span")]
    if row.box is not None:
        low, high = map(x, row.box)
        box = element("rect", x=low, y=y - 5, width=max(1.0, high - low), height=10, class_="box")
        parts.append(box)
    parts += [mark(k, x(value), y) for k, value in enumerate(row.marks) if value is not None]
    return together(*parts)
