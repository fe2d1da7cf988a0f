"""What a report has against being relied on: whoever signs it off all the same has to say why."""

from collections.abc import Mapping
from typing import Any

from fedaudit.ledger.statements import Concern
from fedaudit.reports.sections.attacks import raised_alarms
from fedaudit.reports.sections.guarantee import is_in_force
from fedaudit.reports.sections.utility import why_not_useful
from fedaudit.reports.verdict.release import excludes_nothing, is_proven

CONCERN_WORDS: dict[Concern, str] = {
    "model-decides-nothing": "its model decides nothing",
    "model-not-shown-useful": "its model is not shown to be better than a constant prediction",
    "gates-failed": "its gates failed",
    "gates-lack-evidence": "its gates lack evidence",
    "no-guarantee": "nothing bounds what it reveals",
    "guarantee-not-in-force": "its guarantee is not in force",
    "guarantee-bounds-nothing": "its guarantee bounds practically nothing",
    "guarantee-not-proven": "its guarantee is not proven for all datasets",
    "attack-raised-alarm": "an attack found evidence against its guarantee",
}


def concerns_of(report: Mapping[str, Any]) -> list[Concern]:
    """The concerns, from the report's own outcomes and from its spec."""
    found: list[Concern] = []
    if raised_alarms(report):
        found.append("attack-raised-alarm")
    if report["utility"].get("degenerate"):
        found.append("model-decides-nothing")
    elif why_not_useful(report) is not None:
        found.append("model-not-shown-useful")
    if report["gate_outcome"] == "fail":
        found.append("gates-failed")
    elif report["gate_outcome"] == "insufficient_evidence":
        found.append("gates-lack-evidence")
    if report["guarantee"]["kind"] == "none":
        found.append("no-guarantee")
    elif not is_in_force(report):
        found.append("guarantee-not-in-force")
    elif excludes_nothing(report):
        found.append("guarantee-bounds-nothing")
    elif not is_proven(report):
        found.append("guarantee-not-proven")
    return found
