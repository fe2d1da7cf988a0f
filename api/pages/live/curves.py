"""The series of an experiment as a script draws them: the same figures as in the drawings."""

from collections.abc import Sequence
from typing import Any

from fedaudit.reports.charts.line_chart import Series, kept_places
from fedaudit.spec.metrics import METRICS, ROUND_METRICS

MAX_POINTS = 1000
_MAX_CLUSTERS = 6
"""Colours and dashes there are; the drawings show the extremes of more."""

_CURVES = (
    ("leakage", "Leakage of a client", "so far", ("leakage_max", "leakage_median")),
    ("epsilon", "Epsilon", "spent so far", ("epsilon_max",)),
    ("loss", "Loss", "on held-out clients", ("validation_loss", "selection_loss")),
    ("accuracy", "Accuracy", "share of rows classified rightly", ("accuracy",)),
    ("separation", "Separation of clusters", "below 1: they lie apart", ("separation",)),
)
_LINES = {
    "leakage_max": "largest",
    "leakage_median": "median",
    "epsilon_max": "largest epsilon",
    "validation_loss": "validation loss",
    "selection_loss": "selection loss (for stopping)",
    "accuracy": "accuracy",
    "separation": "separation",
}

Lines = Sequence[tuple[str, Sequence[float | None]]]


def curves(series: Series) -> list[dict[str, Any]]:
    """Name, title, unit (in words), rounds and lines of each curve that has a value.

    Rounds without any value are left out, and of very many rounds all but MAX_POINTS.
    """
    found = [
        _curve(name, title, unit, series.rounds, _figures(series, names))
        for name, title, unit, names in _CURVES
    ]
    for attribute, gaps in series.gaps.items():
        lines = [
            (METRICS[metric].family.words, gaps.values[metric])
            for metric in ROUND_METRICS
            if metric in gaps.values
        ]
        title = f"Gaps between groups of {attribute}"
        found.append(_curve(f"gaps {attribute}", title, "differences of rates", gaps.rounds, lines))
    found += [
        _curve(name, title, unit, series.rounds, lines)
        for name, title, unit, lines in (
            ("clusters", "Uploads in each cluster", "a round", _cluster_sizes(series)),
            ("cluster leakage", "Largest leakage in each cluster", "so far", _leakage(series)),
        )
        if 1 < len(lines) <= _MAX_CLUSTERS
    ]
    return [curve for curve in found if curve["rounds"]]


def _curve(name: str, title: str, unit: str, rounds: Sequence[int], lines: Lines) -> dict[str, Any]:
    shown = [(label, values) for label, values in lines if any(one is not None for one in values)]
    present = [
        place
        for place in range(len(rounds))
        if any(values[place] is not None for _, values in shown)
    ]
    columns = [[values[place] for place in present] for _, values in shown]
    kept = kept_places(columns, most=MAX_POINTS)
    return {
        "name": name,
        "title": title,
        "unit": unit,
        "rounds": [rounds[present[place]] for place in kept],
        "lines": [
            {"name": label, "values": [column[place] for place in kept]}
            for (label, _), column in zip(shown, columns, strict=True)
        ],
    }


def _figures(series: Series, names: Sequence[str]) -> Lines:
    return [(_LINES[name], series.figures[name]) for name in names if name in series.figures]


def _cluster_sizes(series: Series) -> Lines:
    sizes = series.cluster_sizes
    return [
        (f"cluster {place}", [one[place] if place < len(one) else None for one in sizes])
        for place in range(max(map(len, sizes), default=0))
    ]


def _leakage(series: Series) -> Lines:
    return [(f"cluster {cluster}", values) for cluster, values in series.cluster_leakage.items()]
