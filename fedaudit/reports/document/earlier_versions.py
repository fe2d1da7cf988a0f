"""Readers of fields that reports of earlier versions lack or have under another name.

A rate or gap that is lacking is null, with that as the reason.
"""

from collections.abc import Mapping
from typing import Any

from fedaudit.spec.metrics import NOT_IN_REPORT

_ABSENT: Mapping[str, Any] = {
    "value": None,
    "reason": NOT_IN_REPORT,
    "interval": None,
    "interval_reason": None,
}


def metric_of(section: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """One of the `metrics` of a section of a stored report."""
    found: Mapping[str, Any] = section["metrics"].get(name, _ABSENT)
    return found


def rate_of(group: Mapping[str, Any], name: str) -> float | None:
    """A rate of a group in a stored report."""
    found: float | None = group.get(name)
    return found


def why_no_rate(group: Mapping[str, Any], name: str) -> str | None:
    """Why a group in a stored report lacks this rate; None where it has it."""
    if name not in group:
        return NOT_IN_REPORT
    found: str | None = group["reasons"].get(name)
    return found


def privacy_cost_of(section: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The privacy cost by group of a stored report, under its present name or its earlier one."""
    found: Mapping[str, Any] | None = section.get("privacy_cost_by_group", section.get("who_pays"))
    return found


def why_no_privacy_cost(section: Mapping[str, Any]) -> str | None:
    """Why a section of a stored report has no privacy cost by group; None where it has one, or
    where the report was made before it was computed."""
    earlier = section.get("who_pays_reason")
    found: str | None = section.get("privacy_cost_by_group_reason", earlier)
    return found
