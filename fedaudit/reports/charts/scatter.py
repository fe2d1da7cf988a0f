"""Scatter charts: Pareto fronts, two axes at a time, and runs of two parameters in their plane."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from fedaudit.reports.charts.drawing import (
    PLOT_LEFT,
    PLOT_RIGHT,
    SERIES,
    Chart,
    Drawing,
    FigureTable,
    Scale,
    axes,
    drawn,
    element,
    label,
    legend,
    line,
    line_sample,
    mark,
    number,
    together,
    value_scale,
)
from fedaudit.reports.comparison.parts import Axis, Front, FrontPoint
from fedaudit.reports.number_text import figure_text

_FRONT_HEIGHT, _PLANE_HEIGHT = 220.0, 300.0
_KINDS = ("on the front", "dominated")

Point = Sequence[float]
Round = Mapping[str, Any]


def front_charts(front: Front, *, name: str, numbers: Mapping[str, int]) -> list[Chart]:
    """One chart of each other axis against privacy; empty for fewer than two experiments. `name` is
    the prefix of the charts' names. `numbers`: experiment -> the label of its mark."""
    if len(front.experiments) < 2:
        return []
    return [
        _front_chart(front, place, name=f"{name}-{place}", numbers=numbers)
        for place in range(1, len(front.axes))
    ]


def axis_text(axis: Axis) -> str:
    """The label of an axis, such as `equalized odds difference by sex`."""
    words = axis.figure.replace("_", " ")
    return words if axis.attribute is None else f"{words} by {axis.attribute}"


def _front_chart(front: Front, place: int, *, name: str, numbers: Mapping[str, int]) -> Chart:
    other, points = front.axes[place], front.experiments
    across, up = axis_text(front.axes[0]), axis_text(other)
    key, top = legend([(mark(kind, 11, 0), named) for kind, named in enumerate(_KINDS)])
    bottom = top + 26 + _FRONT_HEIGHT
    x = value_scale([one.values[0] for one in points], start=PLOT_LEFT, end=PLOT_RIGHT)
    y = value_scale([one.values[place] for one in points], start=bottom, end=top + 26)
    best = ", ".join(str(numbers[one]) for one in front.front)
    marks = []
    for one in points:
        at = x(one.values[0]), y(one.values[place])
        number_ = label(str(numbers[one.experiment_id]), at[0] + 8, at[1] - 6)
        marks += [mark(int(bool(one.dominated_by)), *at), number_]
    return Chart(
        name=name,
        title=f"{up.capitalize()} against {across}",
        description=f"Marks of {len(points)} experiments by {across} and by {up}.",
        caption=f"On the front, over all of its axes: {best}. Less {across} is better, and "
        f"{'more' if other.better == 'higher' else 'less'} {up}.",
        drawing=drawn(key, axes(x, y, across=across, up=up), *marks, height=bottom + 38),
        table=FigureTable(
            ("Experiment", across, up, ""), [_front_row(one, place, numbers) for one in points]
        ),
    )


def _front_row(point: FrontPoint, place: int, numbers: Mapping[str, int]) -> tuple[str, ...]:
    by = ", ".join(str(numbers[one]) for one in point.dominated_by)
    values = figure_text(point.values[0]), figure_text(point.values[place])
    return str(numbers[point.experiment_id]), *values, f"dominated by {by}" if by else _KINDS[0]


def plane_charts(report: Mapping[str, Any]) -> list[Chart]:
    """The first validated round and the best one, on the same axes (Galli et al., Figure 1); empty
    without a parameter plot."""
    # Reports that were stored before parameter plots existed lack the field.
    plane = report.get("plane")
    if plane is None:
        return []
    return [_plane_chart(plane, one) for one in (plane["first"], plane) if one is not None]


def _plane_chart(plane: Mapping[str, Any], one: Round) -> Chart:
    best = one is plane
    which = f"round {one['round']}, the best" if best else f"round {one['round']}"
    rows = [(f"true parameters {place}", point) for place, point in enumerate(plane["truth"])]
    rows += [(f"hypothesis {place}", point) for place, point in enumerate(one["hypotheses"])]
    rows += [
        (f"upload, cluster {cluster}", point)
        for point, cluster in zip(one["uploads"], one["clusters"], strict=True)
    ]
    distances = (
        min((math.dist(point, true), j) for j, true in enumerate(plane["truth"]))
        for point in one["hypotheses"]
    )
    stated = [
        f"Hypothesis {place} is {figure_text(away)} away from true parameters {nearest}."
        for place, (away, nearest) in enumerate(distances)
    ]
    lines = "The lines lead there from the start of training" if best else "The lines show one step"
    stated.append(f"{lines}; crosses are the parameters that generated the data.")
    return Chart(
        name=f"chart-plane-{one['round']}",
        title=f"Uploads and hypotheses in the plane, {which}",
        description=f"Scatter chart of {plane['parameters'][0]} and {plane['parameters'][1]}: "
        f"{len(one['uploads'])} uploads by cluster, {len(one['hypotheses'])} hypotheses and "
        f"{len(plane['truth'])} true parameter vectors. The figures are in the table below.",
        caption=" ".join([*stated, "Uploads are as the server received them, noise included."]),
        drawing=_plane_drawing(plane, one),
        table=FigureTable(
            head=("What", *(name[:1].upper() + name[1:] for name in plane["parameters"])),
            rows=[(name, *(figure_text(value) for value in point)) for name, point in rows],
        ),
    )


def _plane_drawing(plane: Mapping[str, Any], one: Round) -> Drawing:
    clusters = range(len(one["hypotheses"]))
    key, top = legend(
        [
            *(
                (mark(j, 11, 0), f"upload, cluster {' or '.join(map(str, clusters[j::SERIES]))}")
                for j in clusters[:SERIES]
            ),
            (_hypothesis(0, 11, 0), "hypothesis"),
            (line_sample("s0"), "its path"),
            (_truth(11, 0), "true parameters"),
        ]
    )
    bottom = top + 26 + _PLANE_HEIGHT
    # Every point that either chart draws, so that both have the same axes.
    points: list[Point] = [*plane["truth"], *plane["hypotheses"], *plane["uploads"]]
    points += [point for of_round in plane["path"] for point in of_round["hypotheses"]]
    points += plane["first"]["uploads"] if plane["first"] is not None else []
    across, up = zip(*points, strict=True)
    x = value_scale((), start=PLOT_LEFT, end=PLOT_RIGHT, whole=(min(across), max(across)))
    y = value_scale((), start=bottom, end=top + 26, whole=(min(up), max(up)))
    path = [step["hypotheses"] for step in plane["path"] if step["round"] < one["round"]]
    path.append(one["hypotheses"])
    uploads = [
        mark(cluster, x(point[0]), y(point[1]))
        for point, cluster in zip(one["uploads"], one["clusters"], strict=True)
    ]
    name, other = plane["parameters"]
    parts = [
        key,
        axes(x, y, across=name, up=other, grid=True),
        *(_trail(steps, j, x, y) for j, steps in enumerate(zip(*path, strict=True))),
        element("g", *uploads, class_="uploads"),
        *(_hypothesis(j, x(point[0]), y(point[1])) for j, point in enumerate(one["hypotheses"])),
        *(_truth(x(point[0]), y(point[1])) for point in plane["truth"]),
    ]
    return drawn(*parts, height=bottom + 38)


def _trail(points: Sequence[Point], place: int, x: Scale, y: Scale) -> Markup:
    steps = "L".join(f"{number(x(point[0]))} {number(y(point[1]))}" for point in points)
    return element("path", d=f"M{steps}", class_=f"s{place % SERIES}")


def _hypothesis(place: int, x: float, y: float) -> Markup:
    at = f"translate({number(x)} {number(y)}) scale(1.7)"
    return element("g", mark(place, 0, 0), transform=at, class_="hypothesis")


def _truth(x: float, y: float) -> Markup:
    return together(
        line(x - 6, y - 6, x + 6, y + 6, "truth"), line(x - 6, y + 6, x + 6, y - 6, "truth")
    )
