"""The charts of an experiment that has no report yet, from the rounds so far."""

from fedaudit.reports.charts.chart import Chart
from fedaudit.reports.charts.over_rounds import gap_charts, privacy_charts, training_charts
from fedaudit.reports.charts.series import Series


def running_charts(series: Series, *, delta: float | None, best: int | None = None) -> list[Chart]:
    """The charts over rounds; empty where no round is stored. `delta`: the delta of the epsilons;
    `best`: the best round of a run that has ended."""
    if not series.rounds:
        return []
    so_far = {"guarantee": {"delta": delta}, "utility": {"best_round": best}}
    found = [*privacy_charts(so_far, series), *training_charts(so_far, series)]
    for place, (attribute, gaps) in enumerate(series.gaps.items(), start=1):
        section = {"attribute": attribute, "metrics": {}}
        found += gap_charts(section, gaps, name=f"fairness-{place}", best=best)
    return found
