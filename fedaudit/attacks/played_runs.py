"""Runs played to their ends, with canaries beside them that may end them; and a run repeated."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any

from fedaudit.attacks.attack import AttackedRun, Progress
from fedaudit.attacks.canaries.canary_attack import audit_beside
from fedaudit.reports.sections.utility import known_ending
from fedaudit.runs.blocks import Block, record_block
from fedaudit.runs.run import Run
from fedaudit.training.base.cell import draws_in_secret
from fedaudit.training.base.rounds import PlayedRounds
from fedaudit.training.stack import Stack

_MOST_AT_ONCE, _SHORT_SECONDS = 100, 0.5
"""Rounds between two reports of progress: twice as many as before if they took so short a time."""
_LOSS_TOLERANCE = 1e-9
"""Relative: reports keep every digit, and equal hypotheses have equal losses."""


class FollowedRuns:
    """The canaries beside those runs of a stack whose specs ask for them."""

    def __init__(
        self, runs: Sequence[Run], stack: Stack, *, device: str, progress: Progress = lambda _: None
    ) -> None:
        """`runs` by their positions in the stack. `progress` may raise to stop."""
        self._runs, self._stack, self._progress = runs, stack, progress
        found = {run.experiment_id: audit_beside(run.cell, device=device) for run in runs}
        self.audits = {id_: audit for id_, audit in found.items() if audit is not None}
        """Keyed by experiment."""

    def follow(self, rounds: int) -> None:
        """Trains the canaries as far as the next rounds go, and ends the runs that they stop. A run
        that is resumed is followed by canaries from its first round on; with simulated noise they
        are the same again. Raises what `progress` raises."""
        for position in self._stack.active if self.audits else ():
            run = self._runs[position]
            audit = self.audits.get(run.experiment_id)
            if audit is None:
                continue
            audit.play(run.rounds_done + rounds, progress=self._progress)
            if audit.crossed is not None:
                self._stack.end_after(position, audit.crossed)


def record_played(run: Run, stack: Stack, position: int, played: PlayedRounds) -> Block:
    """What the newest rounds of a run leave behind, its end included where it has come to it.

    Raises RuntimeError where the ledger's totals are not those of training.
    """
    ended = position not in stack.active
    block = record_block(run, played, last=ended, reported=ended)
    run.ledger.check_totals(stack.releases(position))
    return block


def played_blocks(
    runs: Sequence[Run], stack: Stack, *, follow: Callable[[int], None]
) -> Iterator[tuple[int, Block]]:
    """Plays runs side by side to their ends: what rounds leave behind, with the run's position.

    `follow` is called with the number of the next rounds before they are played, and may raise.
    """
    for position in sorted(set(range(len(runs))) - set(stack.active)):
        yield position, record_played(runs[position], stack, position, PlayedRounds())
    at_once = 1
    while stack.active:
        follow(at_once)
        began = monotonic()
        if draws_in_secret(runs[0].cell):
            # Nothing leaves this process before its end, so no plan needs to be on record.
            stack.plan(at_once)
        for position, played in stack.advance(at_once).items():
            yield position, record_played(runs[position], stack, position, played)
        if monotonic() - began < _SHORT_SECONDS:
            at_once = min(2 * at_once, _MOST_AT_ONCE)


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
    for _ in played_blocks([run], trainer, follow=lambda _: progressed()):
        pass
    result, integrity = trainer.result(0), report["integrity"]
    both: dict[str, tuple[object, object]] = {
        "ledger hash": (integrity["ledger_hash"], run.ledger.ledger_hash),
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
    return AttackedRun(run, result, device)
