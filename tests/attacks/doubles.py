"""An attack for tests, in place of every kind: it looks at the run and says what it is given."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

import fedaudit.attacks.carried_out
import fedaudit.attacks.feasibility
from fedaudit.attacks.attack import AttackedRun, AttackOutcome, Progress
from fedaudit.attacks.canaries.canary_attack import CanaryAudit
from fedaudit.reports.sections.attacks import Alarm, AttackSection
from fedaudit.spec.attacks import AttackSpec

ATTACK = {"kind": "cluster-membership"}
ALARM = Alarm(
    claim="at most an epsilon of 1 of a client, against the server.",
    evidence="an epsilon of at least 2, but for one time in a hundred.",
)


class LookSection(AttackSection):
    """What the double found."""

    kind: str
    largest_parameter: float
    rounds: int


@dataclass
class Looks:
    """What the next attacks do: they read the trained hypotheses, and what happens in between is up
    to the test."""

    alarm: Alarm | None = None
    between: Callable[[], None] = lambda: None
    looked: list[AttackedRun] = field(default_factory=list)
    e_value: float | None = None
    """Given, alarms follow from it."""

    def execute(
        self,
        spec: AttackSpec,
        attacked: AttackedRun,
        *,
        audit: CanaryAudit | None,
        progress: Progress,
    ) -> AttackOutcome:
        """In place of the function of that name."""
        self.looked.append(attacked)
        progress(0.25)
        self.between()
        progress(0.5)
        largest = float(abs(attacked.result.hypotheses).max())
        found = {"alarm": self.alarm}
        if self.e_value is not None:
            found = attacked.weigh(self.e_value, "fresh", **ALARM.model_dump())
        section = LookSection(
            kind=spec.kind,
            status="done",
            reason=None,
            statement="The largest parameter was looked up, which shows nothing of anybody.",
            capabilities=["It sees the trained hypotheses."],
            **found,
            largest_parameter=largest,
            rounds=attacked.run.rounds_done,
        )
        return AttackOutcome(section, {"scores.csv": f"largest\n{largest}\n".encode()})


def offer_looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    """Every kind can be asked for, and is a look."""
    looks = Looks()
    monkeypatch.setattr(fedaudit.attacks.carried_out, "execute", looks.execute)
    monkeypatch.setattr(fedaudit.attacks.feasibility, "faults", lambda *_, **__: [])
    return looks
