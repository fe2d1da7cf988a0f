"""Line charts of a run's rounds, of which a report's page shows some, and a chart that its reader
chooses: x, y, and which points belong to one line.

Over a field of specs a chosen chart has lines with their spread, over a figure it is a scatter
chart. Points that no other point beats have a ring.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, pairwise
from typing import Any, NamedTuple

from markupsafe import Markup

from fedaudit.arrays import finite
from fedaudit.number_text import FigureTable, bound_text, figure_text
from fedaudit.reports.charts.drawing import (
    PLOT_LEFT,
    PLOT_RIGHT,
    SERIES,
    Chart,
    Drawing,
    Scale,
    Values,
    axes,
    element,
    joined,
    label,
    legend,
    line,
    line_sample,
    mark,
    number,
    round_scale,
    together,
    value_scale,
    whisker,
)
from fedaudit.spec.metrics import METRICS, SHARES
from fedaudit.stored import FairnessRow, RoundRow

FIGURES = (
    "selection_loss",
    "validation_loss",
    "accuracy",
    "leakage_median",
    "leakage_max",
    "epsilon_max",
)
_DIFFERENCES = {
    name: metric.family.words for name, metric in METRICS.items() if metric.kind == "difference"
}
"""Gaps that are drawn, and what each is called."""
_SHARE, _ANY = (0.0, 1.0), (0.0, 0.0)
"""Least ranges of an axis: of a share, and of what begins at 0."""
_PLOT_HEIGHT = 168.0
_MAX_ROUNDS = 500
"""As many as a page can draw."""


def drawn_rounds(rounds: int, *, validate_every: int) -> tuple[int, list[int]]:
    """The rounds that are drawn: the first, the last, and every one that a number divides, which
    comes first: 1, or for a long run a multiple of the interval between validations."""
    every = 1
    if rounds > _MAX_ROUNDS:
        every = validate_every * -(-rounds // (_MAX_ROUNDS * validate_every))
    return every, sorted({1, *range(every, rounds, every), rounds})


@dataclass(frozen=True)
class Series:
    """Public figures by round, in ascending order; None where a round lacks the figure."""

    rounds: tuple[int, ...] = ()
    figures: Mapping[str, Values] = field(default_factory=dict)
    """One of FIGURES -> one value per round."""
    cluster_sizes: tuple[tuple[int, ...], ...] = ()
    gaps: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    """Sensitive attribute -> difference between its groups -> one value per round."""
    every: int = 1
    """Above 1 for long runs: the first round, the last, and every round that it divides."""
    without_loss: str | None = None
    """Why some of the rounds have no loss."""


def series_of(rounds: Sequence[RoundRow], gaps: Sequence[FairnessRow], *, every: int = 1) -> Series:
    """The series of rounds and of gaps in them, both in the order of their rounds."""
    numbers = tuple(one.round for one in rounds)
    found = {
        (row.attribute, one["metric"], row.round): finite(one["value"])
        for row in gaps
        for one in row.figures
    }
    return Series(
        rounds=numbers,
        figures={name: tuple(finite(getattr(one, name)) for one in rounds) for name in FIGURES},
        cluster_sizes=tuple(tuple(one.cluster_sizes) for one in rounds),
        gaps={
            attribute: {
                name: tuple(found.get((attribute, name, at)) for at in numbers)
                for name in _DIFFERENCES
            }
            for attribute in dict.fromkeys(one.attribute for one in gaps)
        },
        every=every,
        without_loss=next(
            (one.reasons["validation_loss"] for one in rounds if one.validation_loss is None), None
        ),
    )


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


def line_chart(
    lines: Sequence[Line],
    rounds: Sequence[int],
    *,
    unit: str,
    whole: tuple[float, float] | None = None,
    best: int | None = None,
) -> Drawing:
    """Legend, axes and one to six lines, at least one of them with a value. `whole`: the least
    range of the axis; a share runs from 0 to 1. `best`: the round that is marked."""
    entries = []
    if len(lines) > 1:
        entries = [(line_sample(f"s{place % SERIES}"), one.name) for place, one in enumerate(lines)]
    if best is not None:
        entries.append((line(11, -6, 11, 6, "best"), f"best round ({best})"))
    key, top = legend(entries)
    top += 26
    bottom = top + _PLOT_HEIGHT
    values = [value for one in lines for value in one.values if value is not None]
    x = round_scale(rounds[0], rounds[-1], start=PLOT_LEFT, end=PLOT_RIGHT)
    y = value_scale(values, start=bottom, end=top, whole=whole)
    unit = f"{unit} (logarithmic)" if y.logarithmic else unit
    parts = [key, axes(x, y, across="round", up=unit)]
    if best is not None:
        parts.append(line(x(best), top, x(best), bottom, "best"))
    parts += [_line(one.values, rounds, x, y, kind=place) for place, one in enumerate(lines)]
    return Drawing(together(*parts), height=bottom + 38)


def _line(values: Values, rounds: Sequence[int], x: Scale, y: Scale, *, kind: int) -> Markup:
    """A line that breaks where a value is missing; one value by itself is a dot."""
    path, dots = "", []
    pairs = zip(rounds, values, strict=True)
    for missing, stretch in groupby(pairs, key=lambda pair: pair[1] is None):
        points = [(x(at), y(value)) for at, value in stretch if value is not None]
        if len(points) > 1:
            path += "M" + "L".join(f"{number(a)} {number(b)}" for a, b in points)
        elif not missing:
            dots += points
    drawn_path = [element("path", d=path, class_=f"s{kind % SERIES}")] if path else []
    return together(
        *drawn_path,
        *(element("circle", cx=a, cy=b, r=2.5, class_=f"d{kind % SERIES}") for a, b in dots),
    )


@dataclass(frozen=True)
class Charts:
    """The charts over rounds of one page, by section; none where no round is stored."""

    privacy: list[Chart] = field(default_factory=list)
    training: list[Chart] = field(default_factory=list)
    fairness: Mapping[str, list[Chart]] = field(default_factory=dict)
    """By attribute."""

    @property
    def every(self) -> list[Chart]:
        """All of them."""
        return [*self.privacy, *self.training, *chain.from_iterable(self.fairness.values())]


def charts_of(report: Mapping[str, Any], series: Series | None) -> Charts:
    """The charts of a report document, from the series of its run."""
    if series is None:
        return Charts()
    attributes = [section["attribute"] for section in report["fairness"]]
    best, delta = report["utility"]["best_round"], report["guarantee"]["delta"]
    return round_charts(series, attributes, delta=delta, best=best)


def round_charts(
    series: Series, attributes: Sequence[str], *, delta: float | None, best: int | None
) -> Charts:
    """The charts of a run with or without a report. `attributes`: in the order by which their
    charts are numbered; `delta`: that of the epsilons; `best`: the best round of a run that has
    ended."""
    known = series.figures
    at_delta = "" if delta is None else f" at delta = {delta:g}"
    leakage = [
        Line("largest", known["leakage_max"], bounds_cost=True),
        Line("median", known["leakage_median"]),
    ]
    epsilon = [Line(f"largest epsilon{at_delta}", known["epsilon_max"], bounds_cost=True)]
    losses = [
        Line("validation loss", known["validation_loss"]),
        Line("selection loss (for stopping)", known["selection_loss"]),
    ]
    accuracy = [Line("accuracy", known["accuracy"])]
    correct = "share classified correctly"
    uploads = _cluster_lines(series.cluster_sizes)
    privacy = [
        *_chart(series, "leakage", "Leakage of a client", leakage, unit="leakage"),
        *_chart(series, "epsilon", "Epsilon spent", epsilon, unit="epsilon"),
    ]
    training = [
        *_chart(series, "loss", "Loss", losses, unit="loss", best=best, why=series.without_loss),
        *_chart(series, "accuracy", "Accuracy", accuracy, unit=correct, whole=_SHARE, best=best),
        *_chart(series, "clusters", "Uploads in each cluster", uploads, unit="uploads", whole=_ANY),
    ]
    fairness = {
        attribute: _chart(
            series,
            f"fairness-{place}-difference",
            f"Differences between groups of {attribute}",
            [Line(words, series.gaps[attribute][name]) for name, words in _DIFFERENCES.items()],
            unit="difference of rates (0: no gap)",
            whole=_SHARE,
            best=best,
        )
        for place, attribute in enumerate(attributes, start=1)
        if attribute in series.gaps
    }
    return Charts(privacy, training, fairness)


def _chart(
    series: Series,
    name: str,
    title: str,
    lines: Sequence[Line],
    *,
    unit: str,
    whole: tuple[float, float] | None = None,
    best: int | None = None,
    why: str | None = None,
) -> list[Chart]:
    """The chart of the lines that have a value; none without such a line. `why` a round
    has no value."""
    found = [one for one in lines if any(value is not None for value in one.values)]
    if not found:
        return []
    # Rounds that were not validated have no value, and break no line.
    columns = zip(*(one.values for one in found), strict=True)
    kept = [at for at, values in enumerate(columns) if any(one is not None for one in values)]
    shown = [replace(one, values=tuple(one.values[at] for at in kept)) for one in found]
    numbers = [series.rounds[at] for at in kept]
    within = best is not None and numbers[0] <= best <= numbers[-1]
    stated = [_course(one, numbers, among=len(shown)) for one in shown]
    if name == "epsilon" and any(one == next_ for one, next_ in pairwise(shown[0].values)):
        stated.append(
            "It is level where a round is charged what some more of them cost, which is known of a "
            "few numbers of rounds, or where none who spent most took part."
        )
    if why is not None:
        stated.append(f"Why other rounds have no point: {why}.")
    if series.every > 1:
        stated.append(
            f"Of this long run the first round, the last and those that {series.every} divides are "
            "drawn; figures named here are of those."
        )
    chart = Chart(
        name=f"chart-{name}",
        title=f"{title}, by round",
        description=f"Line chart over rounds {numbers[0]} to {numbers[-1]}: "
        f"{joined([one.name for one in shown])}. The figures are in the table below.",
        caption=" ".join(stated),
        drawing=line_chart(shown, numbers, unit=unit, whole=whole, best=best if within else None),
        table=FigureTable(
            head=("Round", *(one.name.capitalize() for one in shown)),
            rows=[
                (str(round_), *(one.text(one.values[at]) for one in shown))
                for at, round_ in enumerate(numbers)
            ],
        ),
    )
    return [chart]


def _course(one: Line, rounds: Sequence[int], *, among: int) -> str:
    """The first and last values of each line, and for one or two lines their extremes as well."""
    points = [
        (value, at) for value, at in zip(one.values, rounds, strict=True) if value is not None
    ]
    (first, start), (last, end) = points[0], points[-1]
    subject = one.name[:1].upper() + one.name[1:]
    if len(points) == 1:
        return f"{subject} is {one.text(first)} in round {start}."
    stated = f"{subject} is {one.text(first)} in round {start} and {one.text(last)} in round {end}"
    extremes = []
    for word, (value, at) in (("lowest", min(points)), ("highest", max(points))):
        if value not in (first, last):
            extremes.append(f"{word} in round {at} ({one.text(value)})")
    return f"{stated}; {joined(extremes)}." if extremes and among <= 2 else f"{stated}."


def _cluster_lines(sizes: Sequence[Sequence[int]]) -> list[Line]:
    """One line per cluster; for more than six clusters, their smallest, median and largest
    sizes."""
    count = max(map(len, sizes), default=0)
    if count < 2:
        return []
    places = {f"cluster {place}": place for place in range(count)}
    if count > SERIES:
        sizes = [sorted(of_round) for of_round in sizes]
        places = {"smallest cluster": 0, "median cluster": count // 2, "largest cluster": count - 1}
    return [
        Line(name, tuple(of_round[at] if at < len(of_round) else None for of_round in sizes))
        for name, at in places.items()
    ]


CHOSEN = "chart-chosen"
"""Its name: there is one on a page."""
_CHOSEN_HEIGHT = 240.0


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
    top, bottom = top + 26, top + 26 + _CHOSEN_HEIGHT
    ends = [end for one in drawn_points for end in one.figures[choice.y] if end is not None]
    whole = (0.0, 1.0) if re.split(r"[\[,]", choice.y)[0] in SHARES else None
    y = value_scale(ends, start=bottom, end=top, whole=whole)
    body = [key, axes(x, y, across=choice.x, up=choice.y)]
    for at, own in enumerate(kept.values()):
        body.append(_marked_line(own, choice.y, place, y, kind=at, linked=not by_figure))
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


def _marked_line(
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
