"""The figures of an experiment that has its report: the report's own, of its best round.

A round may be validated on a sample, and the last is seldom the best: on one page both would
contradict each other.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from api.pages.live.readings import GapReadings, Reading
from api.pages.wording import NONE, figure, whole
from fedaudit.reports.sections.fairness import metric_of
from fedaudit.reports.sections.utility import ON_PAGES
from fedaudit.spec.metrics import ROUND_METRICS

Report = Mapping[str, Any]

_OF_THE_MODEL = ("validation_loss", "accuracy")


def with_final_figures(readings: Sequence[Reading], report: Report) -> list[Reading]:
    """The readings, with the model's figures as the report has them. Costs are those of all
    rounds."""
    utility = report["utility"]
    remark = f"in round {whole(utility['best_round'])}, the best"
    return [
        _figure(one.name, one.label, utility[one.name], utility["reasons"].get(one.name), remark)
        if one.name in _OF_THE_MODEL
        else one
        for one in readings
    ]


def final_gaps(report: Report) -> list[GapReadings]:
    """The gaps between the groups of each attribute, with their intervals."""
    return [
        GapReadings(section["attribute"], tuple(_gap(section, metric) for metric in ROUND_METRICS))
        for section in report["fairness"]
    ]


def ending_words(report: Report) -> str:
    """How training ended, and which round is the best."""
    utility = report["utility"]
    if not utility["rounds"] and (utility.get("method") or {}).get("sent", "") is None:
        return "Finished without a round: every client trained for itself."
    planned = report["spec"]["training"]["rounds"]
    why = ON_PAGES[utility["stopped_by"]]
    return (
        f"Finished in round {whole(utility['rounds'])} of at most {whole(planned)}: {why}. "
        f"The best is round {whole(utility['best_round'])}."
    )


def _gap(section: Mapping[str, Any], metric: str) -> Reading:
    found = metric_of(section, metric)
    interval = found["interval"]
    remark = ""
    if interval is not None:
        low, high = figure(interval["low"]), figure(interval["high"])
        remark = f"{low} to {high} ({figure(100 * interval['level'])} %)"
    name = f"{section['attribute']} {metric}"
    return _figure(name, metric.replace("_", " "), found["value"], found["reason"], remark)


def _figure(name: str, label: str, value: float | None, reason: str | None, remark: str) -> Reading:
    if value is None:
        return Reading(name, label, NONE, reason or "")
    return Reading(name, label, figure(value), remark)
