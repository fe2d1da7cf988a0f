"""A run once more from its spec and data, so that what it trained can be attacked.

With simulated noise everything is drawn from counters, so the repeat is the run itself; that is not
assumed but shown: its ledger has to come out the same, and the losses of its hypotheses.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from fedaudit.attacks.attack import AttackedRun
from fedaudit.ledger.chain import Row, ledger_hash
from fedaudit.reports.sections.utility import known_ending
from fedaudit.runs.blocks import record_block
from fedaudit.runs.run import Run
from fedaudit.training.base.rounds import FinalResult, PlayedRounds
from fedaudit.training.stack import open_stack

_MOST_AT_ONCE, _SHORT_SECONDS = 100, 0.5
"""Rounds between two signs of progress: twice as many as before where they took so short a time."""
_LOSS_TOLERANCE = 1e-9
"""Relative: reports keep every digit, and equal hypotheses have equal losses."""


class NotRepeatedError(Exception):
    """The run came out otherwise; the message says in what."""


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """What the report of a run says of how it came out."""

    ledger_hash: str
    chain_head: str
    """Over the clusters too, which the ledger hash leaves out."""
    rounds: int
    best_round: int
    validation_loss: float | None
    """None where the report does not give it as it was."""
    audited: bool = False
    """Whether canaries beside it ended it, which its repeat is without."""

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> "RecordedRun":
        """Of a report's document. Raises KeyError where it lacks a section."""
        integrity, utility, fairness = (
            report["integrity"],
            report["utility"],
            report["spec"]["fairness"],
        )
        coarse = fairness.get("noise") is not None or fairness.get("rounded_to") is not None
        return cls(
            ledger_hash=integrity["ledger_hash"],
            chain_head=integrity["chain_head"],
            rounds=utility["rounds"],
            best_round=utility["best_round"],
            validation_loss=None if coarse else utility["validation_loss"],
            audited=known_ending(utility["stopped_by"]) == "audit",
        )


def repeat_run(
    run: Run, recorded: RecordedRun, *, device: str, progressed: Callable[[], None]
) -> AttackedRun:
    """Train a run that is at its beginning, and show that it came out as recorded.

    `run`: under the id of the run that it repeats, which its chain begins with. `progressed` is
    called now and then, and may raise to stop. Raises NotRepeatedError.
    """
    trainer = open_stack([run.cell], device=device)
    if recorded.audited:
        trainer.end_after(0, recorded.rounds)
    rows: list[Row] = []
    at_once = 1
    if not trainer.active:
        ended_at_once = record_block(run, PlayedRounds(), last=True, reported=True)
        rows += [written.hashed for written in ended_at_once.ledger]
    while trainer.active:
        progressed()
        began = monotonic()
        [records] = trainer.advance(at_once).values()
        ended = not trainer.active
        block = record_block(run, records, last=ended, reported=ended)
        rows += [written.hashed for written in block.ledger]
        run.ledger.check_totals(trainer.releases(0))
        if monotonic() - began < _SHORT_SECONDS:
            at_once = min(2 * at_once, _MOST_AT_ONCE)
        if run.rounds_done > recorded.rounds:
            raise NotRepeatedError(
                f"it ended after {recorded.rounds} rounds, and its repeat goes on after them"
            )
    result = trainer.result(0)
    _compare(run, result, recorded, found=ledger_hash(rows))
    return AttackedRun(run, result, device)


def _compare(run: Run, result: FinalResult, recorded: RecordedRun, *, found: str) -> None:
    if found != recorded.ledger_hash:
        raise NotRepeatedError(
            f"its ledger hash is {recorded.ledger_hash}, and that of its repeat {found}"
        )
    head = run.ledger.head.hex()
    if head != recorded.chain_head:
        raise NotRepeatedError("its ledger puts uploads into other clusters than its repeat does")
    if (result.rounds, result.best_round) != (recorded.rounds, recorded.best_round):
        raise NotRepeatedError(
            f"its best round was {recorded.best_round} of {recorded.rounds}, and in its repeat "
            f"{result.best_round} of {result.rounds}"
        )
    loss = recorded.validation_loss
    if loss is not None and not math.isclose(result.validation_loss, loss, rel_tol=_LOSS_TOLERANCE):
        raise NotRepeatedError(
            f"its validation loss was {loss!r}, and that of its repeat {result.validation_loss!r}"
        )
