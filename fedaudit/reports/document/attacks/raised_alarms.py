"""The alarms of a report: attacks that found evidence against what it claims."""

from collections.abc import Mapping
from typing import Any

from fedaudit.reports.document.attacks.attack_section import Alarm


def raised_alarms(report: Mapping[str, Any]) -> list[tuple[str, Alarm]]:
    """The kind of each attack that raised an alarm, and the alarm, in the report's order."""
    return [
        (str(attack["kind"]), Alarm.model_validate(attack["alarm"]))
        for attack in report.get("attacks") or []
        if isinstance(attack, Mapping) and attack.get("alarm") is not None
    ]


def alarm_words(kind: str, alarm: Alarm) -> str:
    """One sentence of what was claimed and what was found, without its full stop."""
    claim, evidence = alarm.claim.rstrip("."), alarm.evidence.rstrip(".")
    return f"the attack {kind} contradicts the guarantee: claimed was {claim}; found was {evidence}"
