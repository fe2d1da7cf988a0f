"""The charts over rounds: the drawing, description and table of a run's series."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedaudit.reports.charts.chart import Chart, FigureTable, joined
from fedaudit.reports.charts.legend import SERIES
from fedaudit.reports.charts.line_chart import Final, Line, LinePlot, line_chart
from fedaudit.reports.charts.series import GapSeries, Series, Values
from fedaudit.reports.charts.thinning import kept_places
from fedaudit.spec.metrics import IDEALS, KINDS, METRICS

_MAX_ROUNDS = 200
_SHARE = (0.0, 1.0)
_BOUNDS = ("epsilon_max", "leakage_max")


def privacy_charts(report: Mapping[str, Any], series: Series) -> list[Chart]:
    """What training had spent by each round."""
    lines = [
        _figure_line(series, "leakage_max", "largest"),
        _figure_line(series, "leakage_median", "median"),
    ]
    found = [
        _chart("leakage", "Leakage of a client, by round", lines, series.rounds, unit="leakage"),
        _chart(
            "cluster-leakage",
            "Largest leakage in each cluster, by round",
            _cluster_leakage_lines(series.cluster_leakage),
            series.rounds,
            unit="leakage",
            remark="A client counts for the cluster of its newest upload.",
        ),
        _chart(
            "epsilon",
            "Epsilon spent, by round",
            [_figure_line(series, "epsilon_max", f"largest epsilon{_at_delta(report)}")],
            series.rounds,
            unit="epsilon",
        ),
    ]
    return [chart for chart in found if chart is not None]


def training_charts(report: Mapping[str, Any], series: Series) -> list[Chart]:
    """Losses, accuracy and cluster sizes."""
    best = report["utility"]["best_round"]
    losses = [
        _figure_line(series, "validation_loss", "validation loss"),
        _figure_line(series, "selection_loss", "selection loss (for stopping)"),
    ]
    accuracy = _figure_line(series, "accuracy", "accuracy")
    separation = _figure_line(series, "separation", "separation")
    found = [
        _chart("loss", "Loss, by round", losses, series.rounds, unit="loss", best=best),
        _chart(
            "accuracy",
            "Accuracy, by round",
            [accuracy],
            series.rounds,
            unit="share classified rightly",
            whole=_SHARE,
            best=best,
        ),
        _chart(
            "clusters",
            "Uploads in each cluster, by round",
            _cluster_lines(series.cluster_sizes),
            series.rounds,
            unit="uploads",
            whole=(0, 0),
        ),
        _chart(
            "separation",
            "Separation of the clusters, by round",
            [separation],
            series.rounds,
            unit="own over nearest other distance",
            whole=(0, 0),
            remark="Below 1, uploads lie closer to their own hypothesis than it lies to the "
            "nearest other.",
        ),
    ]
    return [chart for chart in found if chart is not None]


def gap_charts(
    section: Mapping[str, Any], gaps: GapSeries, *, name: str, best: int | None
) -> list[Chart]:
    """The differences and ratios of one attribute, each with its final interval.

    `section`: the report's section of this attribute; `name` is unique among the attributes.
    """
    found = []
    for kind in KINDS:
        lines = [
            Line(
                name=metric.family.words,
                values=gaps.values[metric_name],
                final=_final(section["metrics"].get(metric_name)),
            )
            for metric_name, metric in METRICS.items()
            if metric.kind == kind and metric_name in gaps.values
        ]
        chart = _chart(
            f"{name}-{kind}",
            f"{kind.capitalize()}s between groups of {section['attribute']}, by round",
            lines,
            gaps.rounds,
            unit=f"{kind} of rates ({IDEALS[kind]}: no gap)",
            whole=_SHARE,
            best=best,
            remark=_final_words(lines),
        )
        if chart is not None:
            found.append(chart)
    return found


def _chart(
    name: str,
    title: str,
    lines: Sequence[Line],
    rounds: Sequence[int],
    *,
    unit: str,
    whole: tuple[float, float] | None = None,
    best: int | None = None,
    remark: str = "",
) -> Chart | None:
    """The chart of the lines that have a value; None where no line has one."""
    shown = [one for one in lines if any(value is not None for value in one.values)]
    if not shown:
        return None
    kept = kept_places([one.values for one in shown], most=_MAX_ROUNDS)
    within = best is not None and rounds[0] <= best <= rounds[-1]
    plot = LinePlot(
        rounds=rounds,
        lines=shown,
        kept=kept,
        unit=unit,
        whole=whole,
        best_round=best if within else None,
    )
    names = joined([one.name for one in shown])
    stated = [_course(one, rounds, among=len(shown)) for one in shown]
    return Chart(
        name=f"chart-{name}",
        title=title,
        description=f"Line chart over rounds {rounds[0]} to {rounds[-1]}: {names}. The figures "
        "are in the table below.",
        caption=" ".join([*stated, remark]).strip(),
        drawing=line_chart(plot),
        table=_table(shown, rounds, kept),
    )


def _table(lines: Sequence[Line], rounds: Sequence[int], kept: Sequence[int]) -> FigureTable:
    note = ""
    if len(kept) < len(rounds):
        note = (
            f"{len(kept)} of {len(rounds)} rounds are drawn and listed: of each stretch those "
            "where a line is lowest and highest. The experiment's rounds hold all of them."
        )
    return FigureTable(
        head=("Round", *(one.name.capitalize() for one in lines)),
        rows=[
            (str(rounds[place]), *(one.text(one.values[place]) for one in lines)) for place in kept
        ],
        note=note,
    )


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


def _figure_line(series: Series, figure: str, name: str) -> Line:
    return Line(name, series.figures.get(figure, ()), bounds_cost=figure in _BOUNDS)


def _at_delta(report: Mapping[str, Any]) -> str:
    delta = report["guarantee"]["delta"]
    return "" if delta is None else f" at delta = {delta:g}"


def _cluster_lines(sizes: Sequence[Sequence[int]]) -> list[Line]:
    """One line per cluster; for more than six clusters, their smallest, median and largest
    sizes."""
    count = max(map(len, sizes), default=0)
    if count < 2:
        return []
    if count > SERIES:
        ordered = [sorted(of_round) for of_round in sizes]
        places = {"smallest": 0, "median": count // 2, "largest": count - 1}
        return [Line(f"{word} cluster", _sizes(ordered, at)) for word, at in places.items()]
    return [Line(f"cluster {place}", _sizes(sizes, place)) for place in range(count)]


def _cluster_leakage_lines(leakage: Mapping[int, Values]) -> list[Line]:
    """One line per cluster; for more than six clusters, those with the least and the most
    leakage."""
    if len(leakage) < 2:
        return []
    if len(leakage) <= SERIES:
        return [Line(f"cluster {cluster}", values) for cluster, values in leakage.items()]
    present = [
        [value for value in of_round if value is not None]
        for of_round in zip(*leakage.values(), strict=True)
    ]
    return [
        Line(f"cluster that leaks {word}", tuple(chosen(found, default=None) for found in present))
        for word, chosen in (("least", min), ("most", max))
    ]


def _sizes(sizes: Sequence[Sequence[int]], place: int) -> Values:
    return tuple(of_round[place] if place < len(of_round) else None for of_round in sizes)


def _final(metric: Mapping[str, Any] | None) -> Final | None:
    if metric is None or metric["value"] is None:
        return None
    interval = metric["interval"]
    if interval is None:
        return Final(metric["value"])
    return Final(metric["value"], interval["low"], interval["high"])


def _final_words(lines: Sequence[Line]) -> str:
    found = [one.final for one in lines if one.final is not None]
    if not found:
        return ""
    stated = "To the right of the rounds: the report's own values, over all held-out rows"
    if any(final.low is not None for final in found):
        stated += ", with their intervals; rounds have none"
    return f"{stated}."
