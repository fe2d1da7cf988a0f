"""The verdict: what to decide, what was spent, who is worst off, what to do next."""

from collections.abc import Mapping
from typing import Any

from fedaudit.reports.sections.part import VerdictParts
from fedaudit.reports.verdict.cost import cost_part
from fedaudit.reports.verdict.next_step import next_part
from fedaudit.reports.verdict.release import release_part
from fedaudit.reports.verdict.worst_off import fairness_part


def verdict_parts(report: Mapping[str, Any]) -> VerdictParts:
    """The four parts, from an otherwise complete report."""
    return VerdictParts(
        release=release_part(report),
        cost=cost_part(report),
        fairness=fairness_part(report),
        next=next_part(report),
    )


def verdict(parts: VerdictParts) -> str:
    """All of them in one text."""
    return " ".join((parts.release, parts.cost, parts.fairness, parts.next))
