"""Attacks after a report was signed, as its page shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedaudit.reports.later import Basis, judged_later
from fedaudit.reports.page.attack_tables import ShownAttack, attack_tables, false_alarm_chance
from fedaudit.reports.sections.part import Answer
from fedaudit.reports.verdict.release import answer_of

BASIS_WORDS: dict[Basis, str] = {
    "repeated": "The run was repeated from its spec, and its ledger came out the same.",
    "stored-model": "The stored hypotheses of the run were attacked.",
    "companions": "Runs beside it were attacked, by the code of that day: its noise cannot be "
    "drawn again.",
}


@dataclass(frozen=True, kw_only=True)
class LaterAttempt:
    """One request for attacks."""

    number: int
    status: str
    reason: str | None
    """Why nothing was tried, or not everything."""
    kinds: Sequence[str]
    asked_by: str
    asked_at: str
    finished_at: str | None
    basis: Basis | None
    sections: Sequence[Mapping[str, Any]]
    """What became of each attack; empty where nothing was tried."""

    @property
    def attacks(self) -> Sequence[ShownAttack]:
        """The same as tables."""
        return attack_tables(self.sections)


@dataclass(frozen=True)
class LaterAttempts:
    """All requests, and how the report has to be judged after them."""

    attempts: Sequence[LaterAttempt]
    alarms: int
    answer: Answer
    """Whether the model may be released now."""
    release: str | None
    """What the verdict says of releasing the model now; None where the report cannot be judged."""
    gates: Sequence[Mapping[str, Any]]
    """Those that are judged otherwise than in the report."""
    false_alarm_chance: str | None
    """Of any alarm, of the report's attacks and of all these."""


def later_attempts(
    report: Mapping[str, Any], attempts: Sequence[LaterAttempt]
) -> LaterAttempts | None:
    """What the page shows; None where no one asked for attacks."""
    if not attempts:
        return None
    sections = [section for one in attempts for section in one.sections]
    judged = judged_later(report, sections)
    return LaterAttempts(
        attempts,
        sum(section.get("alarm") is not None for section in sections),
        answer_of(judged),
        (judged.get("verdict_parts") or {}).get("release"),
        [gate for gate in judged["gates"] if gate not in report["gates"]],
        false_alarm_chance(judged.get("attacks") or []),
    )
