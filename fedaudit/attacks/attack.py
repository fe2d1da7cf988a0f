"""The interface between a finished run and the attacks on it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from fedaudit.ledger.encoding import ledger_hash
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
from fedaudit.reports.sections.utility import known_ending
from fedaudit.runs.blocks import record_block
from fedaudit.runs.run import Run
from fedaudit.stored import LedgerRow
from fedaudit.training.base.cell import Cell, draws_in_secret
from fedaudit.training.base.rounds import FinalResult, PlayedRounds
from fedaudit.training.stack import Stack

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

    def weigh(self, e_value: float, basis: EvidenceBasis) -> "Weighed":
        """What an attack adds to the evidence against the run. With simulated noise all attacks
        see what the same seed drew."""
        basis = basis if draws_in_secret(self.run.cell) else "run"
        return weigh(e_value, basis, before=self.before)


@dataclass(frozen=True)
class Weighed:
    """An e-value and the run's evidence with it: fields of a section."""

    e_value: float
    e_basis: EvidenceBasis
    evidence: float
    alarm_level: float = ALARM_LEVEL

    def alarm(self, *, claim: str, evidence: str) -> Alarm | None:
        """The alarm, if the run's evidence suffices for one."""
        if not is_alarm(self.evidence, self.e_value):
            return None
        return Alarm(claim=claim, evidence=f"{evidence}; {evidence_words(self.evidence)}")

    def fields(self) -> dict[str, Any]:
        """The values as fields of a section."""
        return asdict(self)


@dataclass(frozen=True)
class AttackOutcome:
    """What an attack found."""

    section: AttackSection
    """What the report prints: nothing that suppression hides."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Confidential figures and pictures by file name, as `scores.csv`."""


def weigh(e_value: float, basis: EvidenceBasis, *, before: Sequence[EValue] = ()) -> Weighed:
    """The evidence of this attack after those before it."""
    return Weighed(e_value, basis, run_evidence([*before, EValue(e_value, basis)]))


def source_of(cell: Cell) -> Source:
    """Random numbers of an attack: from the run's seed, or from the operating system's entropy
    where the run's noise is `release`."""
    return EntropySource() if draws_in_secret(cell) else CounterSource(cell.spec.seed)


_MOST_AT_ONCE, _SHORT_SECONDS = 100, 0.5
"""Rounds between two reports of progress: twice as many as before if they took so short a time."""
_LOSS_TOLERANCE = 1e-9
"""Relative: reports keep every digit, and equal hypotheses have equal losses."""


class NotRepeatedError(Exception):
    """The repeat differs from the run; the message states in what."""


def repeat_run(
    run: Run, report: Mapping[str, Any], *, device: str, progressed: Callable[[], None]
) -> AttackedRun:
    """Trains a run from its beginning, and checks that it comes out as its report says.

    `run` has the id of the run that it repeats, with which its chain begins. `progressed` is called
    now and then, and may raise to stop. Raises NotRepeatedError; KeyError for a report that lacks a
    section.
    """
    trainer, utility = Stack([run.cell], device=device), report["utility"]
    if known_ending(utility["stopped_by"]) == "audit":  # by canaries, which the repeat has not
        trainer.end_after(0, utility["rounds"])
    rows: list[LedgerRow] = []
    at_once = 1
    if not trainer.active:
        ended_at_once = record_block(run, PlayedRounds(), last=True, reported=True)
        rows += ended_at_once.ledger
    while trainer.active:
        progressed()
        began = monotonic()
        [records] = trainer.advance(at_once).values()
        ended = not trainer.active
        block = record_block(run, records, last=ended, reported=ended)
        rows += block.ledger
        run.ledger.check_totals(trainer.releases(0))
        if monotonic() - began < _SHORT_SECONDS:
            at_once = min(2 * at_once, _MOST_AT_ONCE)
    result = trainer.result(0)
    _compare(run, result, report, found=ledger_hash(row.keyed_digest for row in rows))
    return AttackedRun(run, result, device)


def _compare(run: Run, result: FinalResult, report: Mapping[str, Any], *, found: str) -> None:
    integrity, utility = report["integrity"], report["utility"]
    both: dict[str, tuple[object, object]] = {
        "ledger hash": (integrity["ledger_hash"], found),
        # It covers the clusters too, which the ledger hash leaves out.
        "head of the chain": (integrity["chain_head"], run.ledger.head.hex()),
        "number of rounds": (utility["rounds"], result.rounds),
        "best round": (utility["best_round"], result.best_round),
    }
    loss = None if run.spec.fairness.noise is not None else utility["validation_loss"]
    if loss is not None and not math.isclose(result.validation_loss, loss, rel_tol=_LOSS_TOLERANCE):
        both["validation loss"] = loss, result.validation_loss
    for name, (before, now) in both.items():
        if before != now:
            raise NotRepeatedError(f"its {name} is {before}, and that of its repeat {now}")
