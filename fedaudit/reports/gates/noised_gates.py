"""Gates on gaps from counts with noise: decided by the whole interval and not by its middle.

With noise a gap's value alone says little. A bound is met where every gap in the interval meets it,
and missed where none does; where the interval reaches across the bound nothing is decided.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedaudit.reports.document.earlier_versions import metric_of
from fedaudit.spec.gates import Gate


def is_noised(report: Mapping[str, Any]) -> bool:
    """Whether the fairness figures are those of counts with noise."""
    return report.get("fairness_privacy") is not None


def sections_of(gate: Gate, sections: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The attributes that a gate may mean; one, if it is clear."""
    return [one for one in sections if gate.attribute in (None, one["attribute"])]


def noise_doubt(
    gate: Gate,
    sections: Sequence[Mapping[str, Any]],
    *,
    noised: bool,
    meets: Callable[[float, Gate], bool],
) -> str | None:
    """Why a fairness figure that has a value decides nothing; None where it does.

    `meets`: whether a value meets the gate's bound.
    """
    if not noised:
        return None
    [section] = sections_of(gate, sections)
    interval = metric_of(section, gate.figure)["interval"]
    if interval is None:
        return "the counts have noise, and without an interval a gap decides nothing"
    low, high = interval["low"], interval["high"]
    if meets(low, gate) == meets(high, gate):
        return None
    return (
        f"the {interval['level']:.0%} interval from counts with noise, {low:.6g} to {high:.6g}, "
        f"reaches across {gate.value:.6g}; more epsilon or more people narrow it"
    )
