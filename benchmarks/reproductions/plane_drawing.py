"""Runs of two parameters in their plane (Galli et al., Figure 1), from runs played again."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from fedaudit.attacks.replay.watched_run import play
from fedaudit.federations.load import load_federation
from fedaudit.reports.charts.drawing import (
    PLOT_LEFT,
    PLOT_RIGHT,
    SERIES,
    Drawing,
    Scale,
    axes,
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
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell

Point = Sequence[float]
_PLANE_HEIGHT = 300.0
_MOST_STEPS = 50


def kept_plane(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is drawn of a run: its best round, up to 50 rounds on the way there, and the parameters
    that generated the data; None for other data.

    The run is played again here, observed round by round: with simulated noise it is the same.
    """
    spec, best = parse_spec(report["spec"]), report["utility"]["best_round"]
    if not isinstance(spec.federation, SyntheticLinear):
        return None
    run = play(Cell(spec, load_federation(spec, sources_dir=None)), rounds=best)
    (uploads,) = run.passed.uploads[best]
    clusters = run.columns[-1].clusters[0]
    hypotheses = [each.tolist() for each in run.hypotheses]
    return {
        "hypotheses": hypotheses[best],
        "uploads": uploads.uploads.numpy()[clusters >= 0].tolist(),
        "clusters": clusters[clusters >= 0].tolist(),
        "parameters": ["weight of x1", "weight of x2"],
        "path": [{"hypotheses": each} for each in hypotheses[: best : -(-best // _MOST_STEPS)]],
        "truth": [list(theta) for theta in spec.federation.thetas],
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
    return Drawing(together(*parts), height=bottom + 38)


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
