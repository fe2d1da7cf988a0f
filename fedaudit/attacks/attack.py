"""The interface between a finished run and the attacks on it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedaudit.privacy.lower_bounds.e_values import (
    ALARM_LEVEL,
    EValue,
    EvidenceBasis,
    evidence_words,
    is_alarm,
    run_evidence,
)
from fedaudit.randomness import CounterSource, EntropySource, Source
from fedaudit.reports.sections.attacks import Alarm, AttackSection
from fedaudit.runs.run import Run
from fedaudit.training.base.cell import Cell, draws_in_secret
from fedaudit.training.base.rounds import FinalResult

Progress = Callable[[float], None]
"""Called often with the share that is done, from 0 to 1. It may raise to stop the attack."""


@dataclass(frozen=True)
class AttackedRun:
    """A finished run."""

    run: Run
    """Its spec, data, ledger and what is disclosed of its groups."""
    result: FinalResult
    """Its trained hypotheses and their figures."""
    device: str
    before: tuple[EValue, ...] = ()
    """The e-values of the attacks on it before this one."""

    def weigh(
        self, e_value: float, basis: EvidenceBasis, *, claim: str, evidence: str
    ) -> dict[str, Any]:
        """Fields of a section, as `weigh` has them after the attacks before. With simulated noise
        all attacks see what the same seed drew."""
        basis = basis if draws_in_secret(self.run.cell) else "run"
        return weigh(e_value, basis, claim=claim, evidence=evidence, before=self.before)


@dataclass(frozen=True)
class AttackOutcome:
    """What an attack found."""

    section: AttackSection
    """What the report prints: nothing that suppression hides."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Confidential figures and pictures by file name, as `scores.csv`."""


def weigh(
    e_value: float,
    basis: EvidenceBasis,
    *,
    claim: str,
    evidence: str,
    before: Sequence[EValue] = (),
) -> dict[str, Any]:
    """Fields of a section: what an attack adds to the evidence against the run, and the alarm in
    these words if all of it suffices for one."""
    together = run_evidence([*before, EValue(e_value, basis)])
    alarm = None
    if is_alarm(together, e_value):
        alarm = Alarm(claim=claim, evidence=f"{evidence}; {evidence_words(together)}")
    return {
        "e_value": e_value,
        "e_basis": basis,
        "evidence": together,
        "alarm_level": ALARM_LEVEL,
        "alarm": alarm,
        "alarm_reason": None if alarm else "all evidence so far is too little for an alarm",
    }


def source_of(cell: Cell) -> Source:
    """Random numbers of an attack: from the run's seed, or from the operating system's entropy
    where the run's noise is `release`."""
    return EntropySource() if draws_in_secret(cell) else CounterSource(cell.spec.seed)
