"""The interface between a finished run and what attacks it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from fedaudit.privacy.lower_bounds.e_values import (
    ALARM_LEVEL,
    EValue,
    EvidenceBasis,
    evidence_words,
    is_alarm,
    run_evidence,
)
from fedaudit.reports.sections.attacks import Alarm, AttackSection
from fedaudit.runs.run import Run
from fedaudit.training.base.cell import draws_in_secret
from fedaudit.training.base.rounds import FinalResult

Progress = Callable[[float], None]
"""Is given the share that is done, from 0 to 1, often: it may raise to stop the attack."""


@dataclass(frozen=True)
class AttackedRun:
    """A run that has come to its end."""

    run: Run
    """Its spec, data, ledger and what of its groups is disclosed."""
    result: FinalResult
    """Its trained hypotheses and how they did."""
    device: str
    before: tuple[EValue, ...] = ()
    """Of the attacks on it before this one."""
    audit: "FollowedCanaries | None" = None
    """The canaries that were followed beside its training."""

    def weigh(self, e_value: float, basis: EvidenceBasis) -> "Weighed":
        """What an attack adds to the evidence against the run: with simulated noise all attacks
        see what the same seed drew."""
        basis = basis if draws_in_secret(self.run.cell) else "run"
        return weigh(e_value, basis, before=self.before)


@dataclass(frozen=True)
class Weighed:
    """An e-value, and the run's evidence with it: fields of a section."""

    e_value: float
    e_basis: EvidenceBasis
    evidence: float
    alarm_level: float = ALARM_LEVEL

    def alarm(self, *, claim: str, evidence: str) -> Alarm | None:
        """The alarm, where the run's evidence suffices for one."""
        if not is_alarm(self.evidence, self.e_value):
            return None
        return Alarm(claim=claim, evidence=f"{evidence}; {evidence_words(self.evidence)}")

    def fields(self) -> dict[str, Any]:
        """Of a section."""
        return asdict(self)


@dataclass(frozen=True)
class AttackOutcome:
    """What an attack found."""

    section: AttackSection
    """What the report prints: nothing that suppression hides."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Confidential figures and pictures, by file name, as `scores.csv`."""


class FollowedCanaries(Protocol):
    """An attack by canaries that began beside the run's training."""

    def play(self, until: int | None = None, *, progress: Progress) -> None:
        """Their companion's rounds up to `until`, or all of them."""

    def outcome(self, weigh: Callable[[float, EvidenceBasis], Weighed]) -> AttackOutcome:
        """What they show, once all were played."""


def weigh(e_value: float, basis: EvidenceBasis, *, before: Sequence[EValue] = ()) -> Weighed:
    """The evidence with this attack behind those before it."""
    return Weighed(e_value, basis, run_evidence([*before, EValue(e_value, basis)]))


class Attack(ABC):
    """An attack as its spec asks for it."""

    @abstractmethod
    def execute(self, attacked: AttackedRun, *, progress: Progress) -> AttackOutcome:
        """Attacks the run. It draws from the run's seed under purposes of its own, or from the
        operating system's entropy where the run's noise is `release`."""
