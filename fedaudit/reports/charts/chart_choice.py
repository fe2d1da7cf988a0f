"""Which charts a report's page shows, and where."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedaudit.reports.charts.chart import Chart
from fedaudit.reports.charts.final_charts import rates_chart, spending_charts
from fedaudit.reports.charts.over_rounds import gap_charts, privacy_charts, training_charts
from fedaudit.reports.charts.parameter_plot_chart import plane_charts
from fedaudit.reports.charts.privacy_cost_chart import privacy_cost_chart
from fedaudit.reports.charts.series import Series


@dataclass(frozen=True)
class Charts:
    """The charts of one page, by section."""

    privacy: list[Chart]
    fairness: list[list[Chart]]
    """One entry for each of the report's fairness sections, in their order."""
    training: list[Chart]
    curves: bool
    """Whether any chart is drawn over rounds, from figures outside the report."""


def charts_of(report: Mapping[str, Any], series: Series | None) -> Charts:
    """The charts of a report document. Without `series`, only those of the report's own figures."""
    found = series or Series()
    best = report["utility"]["best_round"]
    return Charts(
        privacy=[*spending_charts(report), *_noted(privacy_charts(report, found), found)],
        fairness=[
            _draw_attribute(section, found, name=f"fairness-{place}", best=best)
            for place, section in enumerate(report["fairness"], start=1)
        ],
        training=[*plane_charts(report), *_noted(training_charts(report, found), found)],
        curves=bool(found.rounds),
    )


def _noted(charts: Sequence[Chart], series: Series) -> list[Chart]:
    """The charts over rounds; each says so where not all rounds were read for it."""
    if series.every == 1:
        return list(charts)
    note = (
        f"Of this long run the first round, the last and every {series.every}th were read; figures "
        "named here are of those."
    )
    return [replace(chart, caption=f"{chart.caption} {note}") for chart in charts]


def _draw_attribute(
    section: Mapping[str, Any], series: Series, *, name: str, best: int
) -> list[Chart]:
    rates = rates_chart(section, name=name)
    gaps = series.gaps.get(section["attribute"])
    curves = [] if gaps is None else gap_charts(section, gaps, name=name, best=best)
    paid = privacy_cost_chart(section, name=name)
    return [*_noted(curves, series), *(chart for chart in (rates, paid) if chart is not None)]
