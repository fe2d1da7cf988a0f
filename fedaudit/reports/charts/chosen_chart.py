"""A chart that its reader chooses: x, y, and which points belong to one line.

Over a field of specs it has lines with their spread, over a figure it is a scatter chart. Points
that no other point beats have a ring.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from fedaudit.number_text import FigureTable, figure_text
from fedaudit.reports.charts.drawing import (
    PLOT_LEFT,
    PLOT_RIGHT,
    SERIES,
    Chart,
    Drawing,
    Scale,
    axes,
    element,
    label,
    legend,
    mark,
    number,
    together,
    value_scale,
    whisker,
)
from fedaudit.spec.metrics import SHARES

CHOSEN = "chart-chosen"
"""Its name: there is one on a page."""
_HEIGHT = 240.0


class Measured(NamedTuple):
    """A figure of a point; without `low` and `high` its spread is not known."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Point:
    """One run, or one combination of a sweep."""

    number: int
    """Its number in tables."""
    fields: Mapping[str, str]
    """Fields of its spec that differ among the points; '' for what its spec lacks."""
    figures: Mapping[str, Measured]
    front: bool
    """Whether no other is better in all that the front weighs."""


@dataclass(frozen=True)
class Choice:
    """What is drawn."""

    x: str
    y: str
    lines: str = ""
    """The field whose values have a colour each; '' for one colour."""
    only: str = ""
    """The points that are drawn, in the form `name = value`; '' for all."""


Offers = Mapping[str, Sequence[str]]
"""What can be chosen, by the fields of a choice."""


def offers(points: Sequence[Point], figures: Sequence[str]) -> Offers:
    """Every field with several values and every figure that some point has."""
    fields = dict.fromkeys(name for one in points for name in one.fields)
    values = {name: _values(points, name) for name in fields}
    several = {name: found for name, found in values.items() if len(found) > 1}
    return {
        "x": [*several, *figures],
        "y": figures,
        "lines": ["", *several],
        "only": ["", *(f"{name} = {one}" for name, found in several.items() for one in found)],
    }


def chosen(
    points: Sequence[Point], offered: Offers, asked: Mapping[str, str | None], *, preferred: str
) -> Choice | None:
    """The choice asked for if it is offered, else a suitable one: as x a field that ends like
    `preferred`, as y the first other figure that most points have too, and a line for each value
    of another field; None where nothing can be drawn."""
    if not offered["x"] or not offered["y"]:
        return None

    def taken(name: str, usual: str) -> str:
        found = asked.get(name)
        return found if found is not None and found in offered[name] else usual

    def drawn_with(y: str) -> int:
        # What a target asks for, as `privacy.target.epsilon`, is no news of what it spent.
        asked_for = y.startswith(x.rpartition(".")[2])
        return not asked_for and sum(_is_drawn(one, Choice(x, y)) for one in points)

    x = taken("x", next((one for one in offered["x"] if one.endswith(preferred)), offered["x"][0]))
    others = [name for name in offered["lines"] if name not in ("", x)]
    usual = next((one for one in others if one.endswith("hypotheses")), (*others, "")[0])
    y = taken("y", max(offered["y"], key=drawn_with))
    return Choice(x, y, taken("lines", usual), taken("only", ""))


def chosen_chart(points: Sequence[Point], choice: Choice) -> Chart | None:
    """The chart; None where no point has what was chosen."""
    shown = [one for one in points if _is_drawn(one, choice)]
    if not shown:
        return None
    by_figure = any(choice.x in one.figures for one in points)
    x, place = _across(shown, choice.x, by_figure=by_figure)
    series = _series(shown, choice, by_figure=by_figure)
    kept = dict(list(series.items())[:SERIES])
    drawn_points = [one for own in kept.values() for one in own]
    caption = ["Bars are intervals, where there are any."]
    entries = [(mark(at, 11, 0), name) for at, name in enumerate(kept) if name]
    if any(one.front for one in drawn_points):
        entries.append((element("circle", cx=11, cy=0, r=7, class_="ring"), "on the front"))
        caption.append("A ring marks what nothing else beats, over all axes of the front.")
    if len(shown) < len(points):
        caption.append(f"{len(points) - len(shown)} of {len(points)} points are not drawn.")
    if len(series) > SERIES:
        caption.append(f"{len(series) - SERIES} more lines do not fit: draw fewer by only.")
    key, top = legend(entries)
    top, bottom = top + 26, top + 26 + _HEIGHT
    ends = [end for one in drawn_points for end in one.figures[choice.y] if end is not None]
    whole = (0.0, 1.0) if re.split(r"[\[,]", choice.y)[0] in SHARES else None
    y = value_scale(ends, start=bottom, end=top, whole=whole)
    body = [key, axes(x, y, across=choice.x, up=choice.y)]
    for at, own in enumerate(kept.values()):
        body.append(_line(own, choice.y, place, y, kind=at, linked=not by_figure))
    what = "Scatter chart" if by_figure else "Line chart"
    return Chart(
        name=CHOSEN,
        title=f"{choice.y} over {choice.x}",
        description=f"{what} of {choice.y} over {choice.x} with {len(shown)} points"
        f"{f', a line for each {choice.lines}' if choice.lines else ''}. The figures are in the "
        "table below.",
        caption=" ".join(caption),
        drawing=Drawing(together(*body), height=bottom + 38),
        table=_table(shown, choice, by_figure=by_figure),
    )


def _values(points: Sequence[Point], name: str) -> list[str]:
    """The values of a field, each once; a point that lacks the field has none."""
    return [one for one in dict.fromkeys(each.fields.get(name, "") for each in points) if one]


def _is_drawn(one: Point, choice: Choice) -> bool:
    name, _, value = choice.only.partition(" = ")
    kept = not choice.only or one.fields.get(name, "") == value
    placed = choice.x in one.figures or bool(one.fields.get(choice.x))
    return kept and placed and choice.y in one.figures


def _across(
    points: Sequence[Point], name: str, *, by_figure: bool
) -> tuple[Scale, Callable[[Point], float]]:
    """The axis of x and where a point is on it: numbers by their size, other values in order."""
    if by_figure:
        scale = value_scale(
            [one.figures[name].value for one in points], start=PLOT_LEFT, end=PLOT_RIGHT
        )
        return scale, lambda one: scale(one.figures[name].value)
    values = _values(points, name)
    try:
        scale = value_scale(map(float, values), start=PLOT_LEFT, end=PLOT_RIGHT)
    except ValueError:
        ticks = tuple(map(float, range(len(values))))
        edges = -0.5, len(values) - 0.5
        named = Scale(*edges, PLOT_LEFT, PLOT_RIGHT, ticks, names=tuple(values))
        return named, lambda one: named(float(values.index(one.fields[name])))
    return scale, lambda one: scale(float(one.fields[name]))


def _series(points: Sequence[Point], choice: Choice, *, by_figure: bool) -> dict[str, list[Point]]:
    """The points of each line: they differ only in x, and the chosen field comes first in its name.
    A scatter chart has one colour for each value of that field."""
    names = [name for name in points[0].fields if name not in (choice.x, choice.lines)]
    varied = [] if by_figure else [name for name in names if len(_values(points, name)) > 1]
    found: dict[str, list[Point]] = {}
    for one in points:
        kept = [choice.lines, *varied] if choice.lines else varied
        said = [f"{name.rsplit('.', 1)[-1]} {one.fields.get(name, '–')}" for name in kept]
        found.setdefault(", ".join(said), []).append(one)
    return dict(sorted(found.items()))


def _line(
    own: Sequence[Point],
    name: str,
    place: Callable[[Point], float],
    y: Scale,
    *,
    kind: int,
    linked: bool,
) -> Markup:
    """Marks with their spread, joined in the order of x where they are of one line."""
    ordered, parts = sorted(own, key=place), []
    if linked and len(ordered) > 1:
        path = "L".join(
            f"{number(place(one))} {number(y(one.figures[name].value))}" for one in ordered
        )
        parts.append(element("path", d=f"M{path}", class_=f"s{kind}"))
    for one in ordered:
        at, (value, low, high) = place(one), one.figures[name]
        if low is not None and high is not None:
            parts.append(whisker(at, y(low), y(high), f"w{kind}"))
        if one.front:
            parts.append(element("circle", cx=at, cy=y(value), r=7.5, class_="ring"))
        parts.append(mark(kind, at, y(value)))
        if not linked:
            parts.append(label(str(one.number), at + 8, y(value) - 6))
    return together(*parts)


def _table(shown: Sequence[Point], choice: Choice, *, by_figure: bool) -> FigureTable:
    names = [choice.lines] if choice.lines else []
    rows = []
    for one in shown:
        value, low, high = one.figures[choice.y]
        across = figure_text(one.figures[choice.x].value) if by_figure else one.fields[choice.x]
        unknown = low is None or high is None
        between = "–" if unknown else f"{figure_text(low)} to {figure_text(high)}"
        kept = (one.fields.get(name, "–") for name in names)
        rows.append((str(one.number), across, *kept, figure_text(value), between))
    return FigureTable(("No.", choice.x, *names, choice.y, "Interval"), rows)
