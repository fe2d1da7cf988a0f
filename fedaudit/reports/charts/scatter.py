"""Scatter charts of Pareto fronts, two axes at a time."""

from collections.abc import Mapping

from fedaudit.number_text import figure_text
from fedaudit.reports.charts.drawing import (
    PLOT_LEFT,
    PLOT_RIGHT,
    Chart,
    FigureTable,
    axes,
    drawn,
    label,
    legend,
    mark,
    value_scale,
)
from fedaudit.reports.comparison.fronts import Axis, Front, FrontPoint

_FRONT_HEIGHT = 220.0
_KINDS = ("on the front", "dominated")


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
