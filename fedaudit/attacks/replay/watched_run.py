"""A run through the path that every run takes, with somebody who looks on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.replay.passed_through import PassedThrough
from fedaudit.attacks.replay.watched_server import WatchedServer
from fedaudit.attacks.replay.watched_steps import WatchedRecords
from fedaudit.attacks.replay.watched_uploads import WatchedClients
from fedaudit.ledger.ledger_context import LedgerContext
from fedaudit.ledger.rows import LedgerEntry
from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.runs.blocks import record_block
from fedaudit.runs.run import new_run
from fedaudit.runs.sink import MemorySink
from fedaudit.training.base.cell import Cell, draws_in_secret
from fedaudit.training.base.rounds import RoundPlot, RoundRecord, Trainer
from fedaudit.training.mechanisms.base import (
    ClientMechanism,
    RecordMechanism,
    ServerMechanism,
    TrainingMechanism,
    watching,
)
from fedaudit.training.personalised import PersonalisedState
from fedaudit.training.stack import open_stack
from fedaudit.training.stacked.stack_state import CellState

_ROUNDING_KEY = bytes(32)
"""Of counts that are rounded: the same in both runs, as coins and noise are."""


@dataclass(frozen=True, eq=False)
class WatchedRun:
    """A run, what passed through its mechanism, and what it leaves behind."""

    cell: Cell
    passed: PassedThrough
    records: list[RoundRecord]
    hypotheses: list[NDArray[np.float32]]
    """[k, n] before the first round and after each."""
    clips: list[float | None]
    """Of a trusted server, likewise."""
    ledger_context: LedgerContext
    entries: list[LedgerEntry]
    published: Sequence[Mapping[str, Any]]
    """What is published of each round: the figures of rounds and of groups."""
    ledger_lines: Sequence[Mapping[str, Any]]
    releases: NDArray[np.int32]
    """What training has counted by itself: [subjects]."""
    kept: NDArray[np.float32]
    """[k, n]: the hypotheses that a result would hold now."""
    best_round: int
    """The round that it names for them; 0 is before the first."""

    @property
    def rounds(self) -> int:
        """Rounds that were played."""
        return len(self.records)


def play(cell: Cell, *, rounds: int, follow: PassedThrough | None = None) -> WatchedRun:
    """Plays at most `rounds` rounds of a cell by itself, and writes their ledger.

    `follow`: another run, whose released values are taken in place of this run's own.
    """
    passed = PassedThrough()

    def wrap(mechanism: TrainingMechanism) -> TrainingMechanism:
        match mechanism:
            case ClientMechanism():
                return WatchedClients(mechanism, passed, follow)
            case ServerMechanism():
                return WatchedServer(mechanism, passed, follow)
            case RecordMechanism():
                return WatchedRecords(mechanism, passed, follow)
            case _:
                assert_never(mechanism)

    run = new_run(cell, experiment_id="replay", started_at=datetime.now(UTC))
    run.rounding_key = _ROUNDING_KEY
    sink = MemorySink(run.ledger.ledger_context)
    records: list[RoundRecord] = []
    with watching(wrap):
        trainer = open_stack([cell])
        states = [_state(cell, trainer)]
        while trainer.active and len(records) < rounds:
            passed.round = len(records) + 1
            if draws_in_secret(cell):
                trainer.plan(1)
            new = trainer.advance(1)[0]
            records += new
            sink.write(record_block(run, new, last=False))
            states.append(_state(cell, trainer))
    result = trainer.result(0)
    return WatchedRun(
        cell=cell,
        passed=passed,
        records=records,
        hypotheses=[hypotheses for hypotheses, _ in states],
        clips=[clip for _, clip in states],
        ledger_context=run.ledger.ledger_context,
        entries=sink.entries,
        published=_published(sink, len(records)),
        ledger_lines=list(sink.lines()),
        releases=trainer.releases(0),
        kept=result.hypotheses,
        best_round=result.best_round,
    )


def _state(cell: Cell, trainer: Trainer) -> tuple[NDArray[np.float32], float | None]:
    """The hypotheses [k, n], and the clip of a trusted server."""
    checkpoint = trainer.checkpoint(0)
    if mechanism_of(cell.spec).facts.applied_by == "local-steps":
        return PersonalisedState.decode(checkpoint).theta[None], None
    state = CellState.decode(checkpoint)
    return state.hypotheses, state.clip


def _published(sink: MemorySink, rounds: int) -> Sequence[Mapping[str, Any]]:
    found: list[dict[str, Any]] = [{} for _ in range(rounds)]
    for figures in sink.rounds:
        own = {**vars(figures)}
        if isinstance(own["plane"], RoundPlot):
            own["plane"] = own["plane"].as_dict()
        found[figures.round - 1].update(own)
    for fairness in sink.fairness:
        name = f"fairness of {fairness.attribute}"
        found[fairness.round - 1][name] = list(fairness.figures)
    return found
