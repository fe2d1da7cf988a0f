"""A run's rounds as series, and line charts of them."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from markupsafe import Markup

from fedaudit.number_text import bound_text, figure_text
from fedaudit.reports.charts.drawing import (
    PLOT_LEFT,
    PLOT_RIGHT,
    SERIES,
    Drawing,
    Scale,
    Values,
    axes,
    drawn,
    element,
    legend,
    line,
    line_sample,
    number,
    round_scale,
    together,
    value_scale,
)
from fedaudit.stored import FairnessRow, RoundRow

FIGURES = (
    "selection_loss",
    "validation_loss",
    "accuracy",
    "leakage_median",
    "leakage_max",
    "epsilon_max",
)
_PLOT_HEIGHT = 168.0


@dataclass(frozen=True)
class GapSeries:
    """The gaps of one sensitive attribute, in the rounds that were validated."""

    rounds: tuple[int, ...]
    values: Mapping[str, Values]


@dataclass(frozen=True)
class Series:
    """Public figures by round, in ascending order; None where a round lacks the figure."""

    rounds: tuple[int, ...] = ()
    figures: Mapping[str, Values] = field(default_factory=dict)
    """One of FIGURES -> one value per round."""
    cluster_sizes: tuple[tuple[int, ...], ...] = ()
    gaps: Mapping[str, GapSeries] = field(default_factory=dict)
    every: int = 1
    """Above 1 for long runs: the first round, the last, and every round that it divides."""


def series_of(rounds: Sequence[RoundRow], gaps: Sequence[FairnessRow], *, every: int = 1) -> Series:
    """The series of rounds and gaps, both in the order of their rounds."""
    attributes = dict.fromkeys(one.attribute for one in gaps)
    return Series(
        rounds=tuple(one.round for one in rounds),
        figures={name: tuple(_finite(getattr(one, name)) for one in rounds) for name in FIGURES},
        cluster_sizes=tuple(tuple(one.cluster_sizes) for one in rounds),
        gaps={name: _gaps([one for one in gaps if one.attribute == name]) for name in attributes},
        every=every,
    )


def _gaps(rows: Sequence[FairnessRow]) -> GapSeries:
    found = [{one["metric"]: one["value"] for one in row.figures} for row in rows]
    names = dict.fromkeys(name for values in found for name in values)
    return GapSeries(
        tuple(row.round for row in rows),
        {name: tuple(_finite(values.get(name)) for values in found) for name in names},
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def kept_places(columns: Sequence[Sequence[float | None]], *, most: int) -> list[int]:
    """The indices of the points to draw, ascending: at most `most`, or 2 + 2 for each column. The
    columns are cut into equal stretches. The indices of the smallest and largest value of every
    column in each stretch are kept, and so are the first and the last index."""
    if not columns or not len(columns[0]):
        return []
    count = len(columns[0])
    if count <= most:
        return list(range(count))
    stretches = max(1, (most - 2) // (2 * len(columns)))
    edges = np.linspace(0, count, stretches + 1).astype(int).tolist()
    kept = {0, count - 1}
    for column in columns:
        values = np.array(column, dtype=np.float64)
        present = ~np.isnan(values)
        for first, end in itertools.pairwise(edges):
            if present[first:end].any():
                kept.add(first + int(np.nanargmin(values[first:end])))
                kept.add(first + int(np.nanargmax(values[first:end])))
    return sorted(kept)


def segments(
    rounds: Sequence[int], values: Sequence[float | None], kept: Sequence[int]
) -> list[list[int]]:
    """The kept indices that have a value, in stretches that are each drawn as one line. A line
    breaks where a value is missing: where neighbours are further apart than is usual for this
    series, which may have been validated only in every tenth round."""
    present = [place for place, value in enumerate(values) if value is not None]
    if not present:
        return []
    steps = np.diff([rounds[place] for place in present])
    breaks = steps > (np.median(steps) if len(steps) else 0)
    part = dict(zip(present, np.concatenate([[0], np.cumsum(breaks)]).tolist(), strict=True))
    drawn_places = (place for place in kept if place in part)
    return [list(places) for _, places in itertools.groupby(drawn_places, key=part.__getitem__)]


@dataclass(frozen=True)
class Line:
    """One series: one value per round, None where there is no value."""

    name: str
    values: Values
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
    unit: str
    whole: tuple[float, float] | None = None
    """The least range of the axis; a share runs from 0 to 1."""
    best_round: int | None = None


def line_chart(plot: LinePlot) -> Drawing:
    """The drawing: legend, axes and one line per series."""
    entries = []
    if len(plot.lines) > 1:
        entries = [
            (line_sample(f"s{place % SERIES}"), one.name) for place, one in enumerate(plot.lines)
        ]
    if plot.best_round is not None:
        entries.append((line(11, -6, 11, 6, "best"), f"best round ({plot.best_round})"))
    key, top = legend(entries)
    top += 26
    bottom = top + _PLOT_HEIGHT
    values = [value for one in plot.lines for value in one.values if value is not None]
    x = round_scale(plot.rounds[0], plot.rounds[-1], start=PLOT_LEFT, end=PLOT_RIGHT)
    y = value_scale(values, start=bottom, end=top, whole=plot.whole)
    unit = f"{plot.unit} (logarithmic)" if y.logarithmic else plot.unit
    parts = [key, axes(x, y, across="round", up=unit)]
    if plot.best_round is not None:
        parts.append(line(x(plot.best_round), top, x(plot.best_round), bottom, "best"))
    parts += [_line(plot, place, x, y) for place in range(len(plot.lines))]
    return drawn(*parts, height=bottom + 38)


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
