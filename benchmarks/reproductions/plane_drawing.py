"""Runs of two parameters in their plane (Galli et al., Figure 1), from the service's rounds."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from fedaudit.reports.charts.drawing import (
    PLOT_LEFT,
    PLOT_RIGHT,
    SERIES,
    Drawing,
    Scale,
    axes,
    drawn,
    element,
    legend,
    line,
    line_sample,
    mark,
    number,
    together,
    value_scale,
)
from fedaudit.spec.federation import SyntheticLinear

Point = Sequence[float]
_PLANE_HEIGHT = 300.0
_MOST_STEPS = 50


def kept_plane(
    report: Mapping[str, Any], rounds: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """What is drawn of a run: its best round, up to 50 rounds on the way there, and the parameters
    that generated the data; None where its rounds have no plane."""
    best = report["utility"]["best_round"]
    planes = {one["round"]: one["plane"] for one in rounds if one["plane"] is not None}
    if best not in planes:
        return None
    earlier = [number for number in sorted(planes) if number < best]
    steps = earlier[:: -(-len(earlier) // _MOST_STEPS) or 1]
    source = SyntheticLinear.model_validate(report["spec"]["federation"])
    return {
        **planes[best],
        "parameters": ["weight of x1", "weight of x2"],
        "path": [{"hypotheses": planes[number]["hypotheses"]} for number in steps],
        "truth": [list(theta) for theta in source.thetas],
    }


def plane_drawing(plane: Mapping[str, Any]) -> Drawing:
    """The uploads and hypotheses of the best round, and the way there."""
    clusters = range(len(plane["hypotheses"]))
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
    points: list[Point] = [*plane["truth"], *plane["hypotheses"], *plane["uploads"]]
    points += [point for of_round in plane["path"] for point in of_round["hypotheses"]]
    across, up = zip(*points, strict=True)
    x = value_scale((), start=PLOT_LEFT, end=PLOT_RIGHT, whole=(min(across), max(across)))
    y = value_scale((), start=bottom, end=top + 26, whole=(min(up), max(up)))
    path = [*(step["hypotheses"] for step in plane["path"]), plane["hypotheses"]]
    uploads = [
        mark(cluster, x(point[0]), y(point[1]))
        for point, cluster in zip(plane["uploads"], plane["clusters"], strict=True)
    ]
    name, other = plane["parameters"]
    parts = [
        key,
        axes(x, y, across=name, up=other, grid=True),
        *(_trail(steps, j, x, y) for j, steps in enumerate(zip(*path, strict=True))),
        element("g", *uploads, class_="uploads"),
        *(_hypothesis(j, x(point[0]), y(point[1])) for j, point in enumerate(plane["hypotheses"])),
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
