"""Charts of a run of two parameters in their plane (Galli et al., Figure 1)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from fedaudit.reports.charts.chart import WIDTH, Chart, Drawing, FigureTable, drawn
from fedaudit.reports.charts.legend import SERIES, legend, line_sample, mark
from fedaudit.reports.charts.number_text import figure_text
from fedaudit.reports.charts.scale import Scale, value_scale
from fedaudit.reports.charts.svg import element, label, line, number, together

_LEFT, _RIGHT, _HEIGHT = 56.0, WIDTH - 20, 300.0

Point = Sequence[float]
Round = Mapping[str, Any]


def plane_charts(report: Mapping[str, Any]) -> list[Chart]:
    """The first validated round and the best one, on the same axes; empty without a parameter
    plot."""
    # Reports that were stored before parameter plots existed lack the field.
    plane = report.get("plane")
    if plane is None:
        return []
    rounds = [one for one in (plane["first"], plane) if one is not None]
    return [_chart(plane, one) for one in rounds]


def _chart(plane: Mapping[str, Any], one: Round) -> Chart:
    best = one is plane
    which = f"round {one['round']}, the best" if best else f"round {one['round']}"
    return Chart(
        name=f"chart-plane-{one['round']}",
        title=f"Uploads and hypotheses in the plane, {which}",
        description=f"Scatter chart of {plane['parameters'][0]} and {plane['parameters'][1]}: "
        f"{len(one['uploads'])} uploads by cluster, {len(one['hypotheses'])} hypotheses and "
        f"{len(plane['truth'])} true parameter vectors. The figures are in the table below.",
        caption=_words(plane, one, best=best),
        drawing=_drawing(plane, one, path=_path(plane, one)),
        table=_table(plane, one),
    )


def _path(plane: Mapping[str, Any], one: Round) -> list[Sequence[Point]]:
    """The hypotheses of the rounds up to and including this one."""
    earlier = [point["hypotheses"] for point in plane["path"] if point["round"] < one["round"]]
    return [*earlier, one["hypotheses"]]


def _drawing(plane: Mapping[str, Any], one: Round, *, path: Sequence[Sequence[Point]]) -> Drawing:
    key, top = legend(_entries(one))
    top += 26
    bottom = top + _HEIGHT
    everything = _all_points(plane)
    x = value_scale((), start=_LEFT, end=_RIGHT, whole=_range(everything, 0))
    y = value_scale((), start=bottom, end=top, whole=_range(everything, 1))
    uploads = [
        mark(cluster, x(point[0]), y(point[1]))
        for point, cluster in zip(one["uploads"], one["clusters"], strict=True)
    ]
    parts = [
        key,
        label(plane["parameters"][1], 0, top - 12, kind="axis"),
        _grid(x, y, plane["parameters"][0]),
        *(_trail(points, j, x, y) for j, points in enumerate(zip(*path, strict=True))),
        element("g", *uploads, class_="uploads"),
        *(_hypothesis(j, x(point[0]), y(point[1])) for j, point in enumerate(one["hypotheses"])),
        *(_truth(x(point[0]), y(point[1])) for point in plane["truth"]),
    ]
    return drawn(*parts, height=bottom + 38)


def _entries(one: Round) -> list[tuple[Markup, str]]:
    """The legend; with more than six hypotheses, several share a mark."""
    clusters = range(len(one["hypotheses"]))
    found = [
        (mark(j, 11, 0), f"upload, cluster {' or '.join(map(str, clusters[j::SERIES]))}")
        for j in clusters[:SERIES]
    ]
    found.append((_hypothesis(0, 11, 0), "hypothesis"))
    found.append((line_sample("s0", 0, 0), "its path"))
    found.append((_truth(11, 0), "true parameters"))
    return found


def _all_points(plane: Mapping[str, Any]) -> list[Point]:
    """All points that either chart draws, so that both have the same axes."""
    found = [*plane["truth"], *plane["hypotheses"], *plane["uploads"]]
    found += [point for of_round in plane["path"] for point in of_round["hypotheses"]]
    return found + (plane["first"]["uploads"] if plane["first"] is not None else [])


def _range(points: Sequence[Point], axis: int) -> tuple[float, float]:
    values = [point[axis] for point in points]
    return min(values), max(values)


def _grid(x: Scale, y: Scale, name: str) -> Markup:
    parts = []
    for value, shown in zip(y.ticks, y.texts(), strict=True):
        parts.append(line(_LEFT, y(value), _RIGHT, y(value), "grid"))
        parts.append(label(shown, _LEFT - 6, y(value) + 4, anchor="end", kind="tick"))
    for value, shown in zip(x.ticks, x.texts(), strict=True):
        parts.append(line(x(value), y.start, x(value), y.end, "grid"))
        parts.append(label(shown, x(value), y.start + 17, anchor="middle", kind="tick"))
    parts.append(label(name, (_LEFT + _RIGHT) / 2, y.start + 34, anchor="middle", kind="axis"))
    return together(*parts)


def _trail(points: Sequence[Point], place: int, x: Scale, y: Scale) -> Markup:
    steps = "L".join(f"{number(x(point[0]))} {number(y(point[1]))}" for point in points)
    return element("path", d=f"M{steps}", class_=f"s{place % SERIES}")


def _hypothesis(place: int, x: float, y: float) -> Markup:
    """A hypothesis: the mark of its cluster, larger and with an edge."""
    at = f"translate({number(x)} {number(y)}) scale(1.7)"
    return element("g", mark(place, 0, 0), transform=at, class_="hypothesis")


def _truth(x: float, y: float) -> Markup:
    return together(
        line(x - 6, y - 6, x + 6, y + 6, "truth"), line(x - 6, y + 6, x + 6, y - 6, "truth")
    )


def _words(plane: Mapping[str, Any], one: Round, *, best: bool) -> str:
    stated = [
        f"Hypothesis {place} lies {figure_text(away)} from true parameters {nearest}."
        for place, (away, nearest) in enumerate(
            min((math.dist(point, true), j) for j, true in enumerate(plane["truth"]))
            for point in one["hypotheses"]
        )
    ]
    line_ = "The lines lead there from where training began" if best else "The lines show one step"
    return " ".join(
        [
            *stated,
            f"{line_}; crosses are the parameters that generated the data.",
            "Uploads are as the server received them, noise included.",
        ]
    )


def _table(plane: Mapping[str, Any], one: Round) -> FigureTable:
    rows = [(f"true parameters {place}", point) for place, point in enumerate(plane["truth"])]
    rows += [(f"hypothesis {place}", point) for place, point in enumerate(one["hypotheses"])]
    rows += [
        (f"upload, cluster {cluster}", point)
        for point, cluster in zip(one["uploads"], one["clusters"], strict=True)
    ]
    return FigureTable(
        head=("What", *(name[:1].upper() + name[1:] for name in plane["parameters"])),
        rows=[(name, *(figure_text(value) for value in point)) for name, point in rows],
    )
