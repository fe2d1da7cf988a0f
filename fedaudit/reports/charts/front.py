"""Charts of a Pareto front, two of its axes at a time."""

from collections.abc import Mapping

from markupsafe import Markup

from fedaudit.reports.charts.chart import WIDTH, Chart, Drawing, FigureTable, drawn
from fedaudit.reports.charts.legend import legend, mark
from fedaudit.reports.charts.number_text import figure_text
from fedaudit.reports.charts.scale import Scale, value_scale
from fedaudit.reports.charts.svg import label, line, together
from fedaudit.reports.comparison.parts import Axis, Front, FrontPoint

_LEFT, _RIGHT, _HEIGHT = 58.0, WIDTH - 28, 220.0
_ON_THE_FRONT, _DOMINATED = 0, 1
_KINDS = ("on the front", "dominated")


def front_charts(front: Front, *, name: str, numbers: Mapping[str, int]) -> list[Chart]:
    """One chart of each other axis against privacy; empty where fewer than two experiments are
    comparable.

    `name` is the prefix of the charts' names. `numbers`: experiment -> the label of its mark.
    """
    if len(front.experiments) < 2:
        return []
    return [
        _chart(front, place, name=f"{name}-{place}", numbers=numbers)
        for place in range(1, len(front.axes))
    ]


def axis_text(axis: Axis) -> str:
    """The label of an axis, such as `equalized odds difference by sex`."""
    words = axis.figure.replace("_", " ")
    return words if axis.attribute is None else f"{words} by {axis.attribute}"


def _chart(front: Front, place: int, *, name: str, numbers: Mapping[str, int]) -> Chart:
    cost, other = front.axes[0], front.axes[place]
    across, up = axis_text(cost), axis_text(other)
    best = ", ".join(str(numbers[one]) for one in front.front)
    head = ("Experiment", across, up, "")
    rows = [_row(point, place, numbers) for point in front.experiments]
    return Chart(
        name=name,
        title=f"{up.capitalize()} against {across}",
        description=f"Marks of {len(rows)} experiments by {across} and by {up}.",
        caption=f"On the front, over all of its axes: {best}. Less {across} is better, and "
        f"{'more' if other.better == 'higher' else 'less'} {up}.",
        drawing=_drawing(front, place, across=across, up=up, numbers=numbers),
        table=FigureTable(head, rows),
    )


def _row(point: FrontPoint, place: int, numbers: Mapping[str, int]) -> tuple[str, ...]:
    by = ", ".join(str(numbers[one]) for one in point.dominated_by)
    return (
        str(numbers[point.experiment_id]),
        figure_text(point.values[0]),
        figure_text(point.values[place]),
        f"dominated by {by}" if by else _KINDS[_ON_THE_FRONT],
    )


def _drawing(
    front: Front, place: int, *, across: str, up: str, numbers: Mapping[str, int]
) -> Drawing:
    key, top = legend([(mark(kind, 11, 0), named) for kind, named in enumerate(_KINDS)])
    top += 24
    bottom = top + _HEIGHT
    points = front.experiments
    x = value_scale([one.values[0] for one in points], start=_LEFT, end=_RIGHT)
    y = value_scale([one.values[place] for one in points], start=bottom, end=top)
    marks = [
        _mark(one, x(one.values[0]), y(one.values[place]), numbers[one.experiment_id])
        for one in points
    ]
    grid = _grid(x, y, top=top, bottom=bottom, across=across, up=up)
    return drawn(key, grid, *marks, height=bottom + 40)


def _mark(point: FrontPoint, x: float, y: float, number: int) -> Markup:
    kind = _DOMINATED if point.dominated_by else _ON_THE_FRONT
    return together(mark(kind, x, y), label(str(number), x + 8, y - 6))


def _grid(x: Scale, y: Scale, *, top: float, bottom: float, across: str, up: str) -> Markup:
    parts = [label(up, 0, top - 10, kind="axis")]
    for value, shown in zip(y.ticks, y.texts(), strict=True):
        parts.append(line(_LEFT, y(value), _RIGHT, y(value), "grid"))
        parts.append(label(shown, _LEFT - 8, y(value) + 4, anchor="end", kind="tick"))
    for value, shown in zip(x.ticks, x.texts(), strict=True):
        parts.append(label(shown, x(value), bottom + 16, anchor="middle", kind="tick"))
    parts.append(line(_LEFT, bottom, _RIGHT, bottom, "axis-line"))
    middle = (_LEFT + _RIGHT) / 2
    parts.append(label(across, middle, bottom + 34, anchor="middle", kind="axis"))
    return together(*parts)
