"""Line charts over rounds."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedaudit.reports.charts.chart import WIDTH, Drawing, drawn
from fedaudit.reports.charts.legend import SERIES, legend, line_sample
from fedaudit.reports.charts.number_text import bound_text, figure_text
from fedaudit.reports.charts.scale import Scale, round_scale, value_scale
from fedaudit.reports.charts.series import Values
from fedaudit.reports.charts.svg import element, label, line, number, together
from fedaudit.reports.charts.thinning import segments

_LEFT, _RIGHT = 56.0, WIDTH - 20
_PLOT_HEIGHT = 168.0
_FINAL_WIDTH = 14.0


@dataclass(frozen=True)
class Final:
    """The report's final value of a series."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def bounds(self) -> tuple[float, ...]:
        """The values that are drawn."""
        return tuple(part for part in (self.low, self.value, self.high) if part is not None)


@dataclass(frozen=True)
class Line:
    """One series: one value per round, None where there is no value."""

    name: str
    values: Values
    final: Final | None = None
    bounds_cost: bool = False
    """Whether the series' figures are rounded up for display."""

    def text(self, value: float | None) -> str:
        """One value of the series, for display."""
        return bound_text(value) if self.bounds_cost else figure_text(value)


@dataclass(frozen=True)
class LinePlot:
    """The input of a line chart: one to six lines, at least one of them with a value."""

    rounds: Sequence[int]
    lines: Sequence[Line]
    kept: Sequence[int]
    """Indices of the rounds that are drawn."""
    unit: str
    whole: tuple[float, float] | None = None
    """The least range of the axis; a share runs from 0 to 1."""
    best_round: int | None = None
    """A value marked by a vertical line, if it lies within the axis."""


def line_chart(plot: LinePlot) -> Drawing:
    """The drawing: legend, axes, one line per series, and the final values to the right of them."""
    key, top = legend(_entries(plot))
    top += 26
    finals = [place for place, one in enumerate(plot.lines) if one.final is not None]
    right = _RIGHT - (_FINAL_WIDTH * len(finals) + 10 if finals else 0)
    bottom = top + _PLOT_HEIGHT
    x = round_scale(plot.rounds[0], plot.rounds[-1], start=_LEFT, end=right)
    y = value_scale(_all_values(plot), start=bottom, end=top, whole=plot.whole)
    parts = [key, label(_axis_title(plot, y), 0, top - 12, kind="axis"), _grid(x, y, right)]
    if plot.best_round is not None:
        parts.append(line(x(plot.best_round), top, x(plot.best_round), bottom, "best"))
    parts += [_line(plot, place, x, y) for place in range(len(plot.lines))]
    if finals:
        parts.append(_finals(plot, finals, right=right, y=y))
    return drawn(*parts, height=bottom + 38)


def _entries(plot: LinePlot) -> list[tuple[Markup, str]]:
    found = []
    if len(plot.lines) > 1:
        found = [
            (line_sample(f"s{place % SERIES}", 0, 0), one.name)
            for place, one in _number_lines(plot)
        ]
    if plot.best_round is not None:
        found.append((line(11, -6, 11, 6, "best"), f"best round ({plot.best_round})"))
    return found


def _number_lines(plot: LinePlot) -> list[tuple[int, Line]]:
    return list(enumerate(plot.lines))


def _all_values(plot: LinePlot) -> list[float]:
    found = [value for one in plot.lines for value in one.values if value is not None]
    for one in plot.lines:
        found += one.final.bounds if one.final is not None else ()
    return found


def _axis_title(plot: LinePlot, y: Scale) -> str:
    return f"{plot.unit} (logarithmic)" if y.logarithmic else plot.unit


def _grid(x: Scale, y: Scale, right: float) -> Markup:
    parts = []
    for value, shown in zip(y.ticks, y.texts(), strict=True):
        parts.append(line(_LEFT, y(value), right, y(value), "grid"))
        parts.append(label(shown, _LEFT - 6, y(value) + 4, anchor="end", kind="tick"))
    for value in x.ticks:
        parts.append(line(x(value), y.start, x(value), y.start + 4, "axis-line"))
        shown = str(int(value))
        parts.append(label(shown, x(value), y.start + 17, anchor="middle", kind="tick"))
    parts.append(line(_LEFT, y.start, right, y.start, "axis-line"))
    middle = (_LEFT + right) / 2
    parts.append(label("round", middle, y.start + 34, anchor="middle", kind="axis"))
    return together(*parts)


def _line(plot: LinePlot, place: int, x: Scale, y: Scale) -> Markup:
    one = plot.lines[place]
    path, dots = [], []
    for stretch in segments(plot.rounds, one.values, plot.kept):
        points = [
            (x(plot.rounds[at]), y(value))
            for at in stretch
            if (value := one.values[at]) is not None
        ]
        if len(points) == 1:
            dots.append(points[0])
        else:
            path.append("M" + "L".join(f"{number(a)} {number(b)}" for a, b in points))
    parts = [element("circle", cx=a, cy=b, r=2.5, class_=f"d{place % SERIES}") for a, b in dots]
    if path:
        parts.insert(0, element("path", d="".join(path), class_=f"s{place % SERIES}"))
    return together(*parts)


def _finals(plot: LinePlot, places: Sequence[int], *, right: float, y: Scale) -> Markup:
    """The report's own value of each series as a dot with its interval, to the right of the
    rounds."""
    parts = []
    at = right + 10 + _FINAL_WIDTH / 2
    middle = at + _FINAL_WIDTH * (len(places) - 1) / 2
    # Lower than the ticks, because the last tick may end here.
    parts.append(label("report", middle, y.start + 34, anchor="middle", kind="axis"))
    for place in places:
        final = plot.lines[place].final
        if final is None:
            continue
        kind = f"w{place % SERIES}"
        if final.low is not None and final.high is not None:
            low, high = y(final.low), y(final.high)
            parts.append(line(at, low, at, high, kind))
            parts += [line(at - 4, end, at + 4, end, kind) for end in (low, high)]
        dot = {"cx": at, "cy": y(final.value), "r": 3.6}
        parts.append(element("circle", **dot, class_=f"d{place % SERIES}"))
        at += _FINAL_WIDTH
    return together(*parts)
