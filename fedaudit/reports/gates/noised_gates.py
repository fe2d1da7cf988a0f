"""Gates on figures from counts with noise: decided by the whole interval and not by its middle.

With noise a value alone says little. A bound is met where every value in the interval meets it, and
missed where none does; where the interval reaches across the bound nothing is decided.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedaudit.reports.sections.fairness import metric_of
from fedaudit.spec.gates import Gate

LEAST_LEVEL = 0.95
"""Of an interval that decides. The spec under judgement chooses its level, and one of 1 % would be
the middle under another name."""
_SHARE_INTERVAL = "prediction_share_interval"


def sections_of(gate: Gate, sections: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The attributes that a gate may mean; one, if it is clear."""
    return [one for one in sections if gate.attribute in (None, one["attribute"])]


def noise_doubt(
    gate: Gate, report: Mapping[str, Any], *, meets: Callable[[float, Gate], bool]
) -> str | None:
    """Why a figure that has a value decides nothing, because it is made from counts with noise;
    None where it does, or where it is made from none.

    `meets`: whether a value meets the gate's bound.
    """
    figure = gate.plain_figure
    if not _is_noised(report) or (figure is not None and figure.section != "utility"):
        return None
    interval = _interval(gate, report)
    if interval is None:
        return "the counts have noise, and without an interval a figure decides nothing"
    low, high, level = interval["low"], interval["high"], interval["level"]
    if level < LEAST_LEVEL:
        return (
            f"the counts have noise, and an interval of {level * 100:g}% decides nothing; set "
            f"fairness.intervals.level to {LEAST_LEVEL:g} or more"
        )
    if meets(low, gate) == meets(high, gate):
        return None
    return (
        f"the {level * 100:g}% interval from counts with noise, {low:.6g} to {high:.6g}, "
        f"reaches across {gate.value:.6g}; more epsilon or more people narrow it"
    )


def intervals_then(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """The report with intervals by which its gates come out as they did when it was made.

    For verification alone. Before shares of noised counts had intervals that decide, gates on them
    were decided by the value, and those on gaps by an interval of any level.
    """
    utility = report["utility"]
    if not _is_noised(report) or _SHARE_INTERVAL in utility:
        return report
    points = {
        f"{name}_interval": {"low": utility.get(name), "high": utility.get(name), "level": 1.0}
        for name in ("accuracy_over_baseline", "prediction_share")
    }
    sections = [
        {**section, "metrics": {name: _sure(one) for name, one in section["metrics"].items()}}
        for section in report["fairness"]
    ]
    return {**report, "utility": {**utility, **points}, "fairness": sections}


def _sure(metric: Mapping[str, Any]) -> Mapping[str, Any]:
    interval = metric["interval"]
    return metric if interval is None else {**metric, "interval": {**interval, "level": 1.0}}


def _is_noised(report: Mapping[str, Any]) -> bool:
    return report.get("fairness_privacy") is not None


def _interval(gate: Gate, report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None
    if gate.plain_figure is not None:
        found = report["utility"].get(f"{gate.figure}_interval")
    else:
        [section] = sections_of(gate, report["fairness"])
        found = metric_of(section, gate.figure)["interval"]
    return found
