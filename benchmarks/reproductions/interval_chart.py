"""Means with their intervals, side by side at a few places: ours, and crosses for the papers'."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from benchmarks.reproductions.kept_sweeps import KeptFigure
from fedaudit.reports.charts.drawing import (
    SERIES,
    WIDTH,
    Drawing,
    Scale,
    element,
    label,
    legend,
    line,
    mark,
    number,
    together,
    value_scale,
)

_LEFT, _RIGHT, _HEIGHT = 56.0, WIDTH - 12, 200.0
_CROSS = 3.5
_SPREAD = 0.7
"""The share of a place's width that its marks fill."""
_CHARACTER, _ROW = 6.6, 13.0


@dataclass(frozen=True)
class Measured:
    """One series: a figure for each place, and what a paper prints for it."""

    name: str
    figures: Sequence[KeptFigure | None]
    published: Sequence[float | None] = ()


@dataclass(frozen=True)
class IntervalPlot:
    """The input of a chart: one to six series over the same places."""

    places: Sequence[str]
    series: Sequence[Measured]
    across: str
    """What the places are."""
    unit: str
    whole: tuple[float, float] | None = None
    """The least range of the axis; None for that of the values."""
    lines: bool = False
    """Whether the means of a series are joined, and lie above one another."""

    @property
    def label_rows(self) -> int:
        """How many rows the names of the places take: two where neighbours would touch."""
        room = (_RIGHT - _LEFT) / len(self.places)
        return 1 if max(map(len, self.places)) * _CHARACTER < room else 2


def interval_chart(plot: IntervalPlot) -> Drawing:
    """The drawing: a legend above the axes, and the marks of each place beside one another."""
    key, top = legend(_entries(plot))
    top += 26
    bottom = top + _HEIGHT
    y = value_scale(_all_values(plot), start=bottom, end=top, whole=plot.whole)
    title = f"{plot.unit} (logarithmic)" if y.logarithmic else plot.unit
    parts = [key, label(title, 0, top - 12, kind="axis"), _grid(plot, y)]
    parts += [_series(plot, order, y) for order in range(len(plot.series))]
    return Drawing(together(*parts), height=bottom + 25 + _ROW * plot.label_rows)


def _entries(plot: IntervalPlot) -> list[tuple[Markup, str]]:
    found = []
    if len(plot.series) > 1:
        found = [(mark(order, 11, 0), one.name) for order, one in enumerate(plot.series)]
    if any(one.published for one in plot.series):
        found.append((_cross(11, 0), "published"))
    return found


def _all_values(plot: IntervalPlot) -> list[float]:
    ours = [
        value
        for one in plot.series
        for figure in one.figures
        if figure is not None
        for value in (figure["mean"], figure["low"], figure["high"])
    ]
    theirs = [value for one in plot.series for value in one.published]
    return [value for value in (*ours, *theirs) if value is not None]


def _grid(plot: IntervalPlot, y: Scale) -> Markup:
    parts = []
    for value, shown in zip(y.ticks, y.texts(), strict=True):
        parts.append(line(_LEFT, y(value), _RIGHT, y(value), "grid"))
        parts.append(label(shown, _LEFT - 6, y(value) + 4, anchor="end", kind="tick"))
    for place, name in enumerate(plot.places):
        down = y.start + 17 + _ROW * (place % plot.label_rows)
        parts.append(label(name, _middle(plot, place), down, anchor="middle", kind="tick"))
    parts.append(line(_LEFT, y.start, _RIGHT, y.start, "axis-line"))
    middle = (_LEFT + _RIGHT) / 2
    below = y.start + 21 + _ROW * plot.label_rows
    parts.append(label(plot.across, middle, below, anchor="middle", kind="axis"))
    return together(*parts)


def _series(plot: IntervalPlot, order: int, y: Scale) -> Markup:
    one, parts, points = plot.series[order], [], []
    for place, figure in enumerate(one.figures):
        x = _across(plot, place, order)
        if one.published and (value := one.published[place]) is not None:
            parts.append(_cross(x, y(value)))
        if figure is None or figure["mean"] is None:
            continue
        mean = y(figure["mean"])
        if figure["low"] is not None and figure["high"] is not None:
            low, high = y(figure["low"]), y(figure["high"])
            parts.append(line(x, low, x, high, f"w{order % SERIES}"))
        parts.append(mark(order, x, mean))
        points.append(f"{number(x)} {number(mean)}")
    if plot.lines and len(points) > 1:
        path = element("path", d=f"M{'L'.join(points)}", class_=f"s{order % SERIES}")
        parts.insert(0, path)
    return together(*parts)


def _middle(plot: IntervalPlot, place: int) -> float:
    return _LEFT + (place + 0.5) * (_RIGHT - _LEFT) / len(plot.places)


def _across(plot: IntervalPlot, place: int, order: int) -> float:
    if plot.lines:
        return _middle(plot, place)
    share = (order + 0.5) / len(plot.series) - 0.5
    return _middle(plot, place) + share * _SPREAD * (_RIGHT - _LEFT) / len(plot.places)


def _cross(x: float, y: float) -> Markup:
    """What a paper prints."""
    low, high = -_CROSS, _CROSS
    return together(
        line(x + low, y + low, x + high, y + high, "published"),
        line(x + low, y + high, x + high, y + low, "published"),
    )
