"""A run's rounds as series, line charts of them, and which of these a report's page shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, pairwise
from typing import Any

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
    legend,
    line,
    line_sample,
    number,
    round_scale,
    together,
    value_scale,
)
from fedaudit.spec.metrics import METRICS
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
_LEVEL = (
    "It is level where a round is charged what some more of them cost, which is known of a few "
    "numbers of rounds, or where none who spent most took part."
)
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
        stated.append(_LEVEL)
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
