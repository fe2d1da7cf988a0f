"""The verdict of a report, part by part."""

from collections.abc import Mapping
from typing import Any

from fedaudit.reports.document.part import Part

PART_TITLES = {
    "release": "May it be released?",
    "cost": "What was spent",
    "fairness": "Who is treated worse",
    "next": "What to do next",
}


class VerdictParts(Part):
    """What somebody decides by, the most important first: a sentence or a few each."""

    release: str
    """Whether the model may be released, and why not."""
    cost: str
    """What training spent, and how much that is."""
    fairness: str
    """Who is worst off, in which direction, by how much and how sure that is."""
    next: str
    """What to do next."""


def verdict_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The parts under their titles; one text in a report of an earlier version."""
    parts = report.get("verdict_parts")
    if parts is None:
        return [("Verdict", report["verdict"])]
    return [(title, parts[name]) for name, title in PART_TITLES.items()]
