"""What is stored of a run: blocks of rounds, each in one fenced transaction."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy.orm import Session

from fedaudit.ledger.encoding import Row, salt_hash
from fedaudit.ledger.rows import LedgerEntry, entry_of, stored_fields
from fedaudit.ledger.statements import Checkpoint
from fedaudit.runs.blocks import Block, values_by_metric
from fedaudit.runs.ledger_writer import LedgerWriter, WrittenEntry
from fedaudit.runs.run import Run
from models.repositories import (
    CheckpointRepository,
    EventRepository,
    ExperimentRepository,
    FairnessRepository,
    LedgerRepository,
    RoundRepository,
    gathered_writes,
)
from models.values import FairnessRow, LedgerRow, RoundRow

log = structlog.get_logger()


@dataclass
class RunningExperiment:
    """A run that is stored under a project."""

    run: Run
    project_id: str
    spec_hash: str
    subjects_hash: str
    witness: str
    """What its signatures witness: DATABASE if its ledger began with rows that no verified worker's
    signature covers, else WORKER."""
    checkpoint: bytes | None = None
    """The trainer's state when the worker resumed it."""

    @property
    def id(self) -> str:
        """Its id."""
        return self.run.experiment_id

    def ledger_checkpoint(self, status: str) -> Checkpoint:
        """The state of its ledger, to be signed."""
        ledger = self.run.ledger
        return Checkpoint(
            experiment_id=self.id,
            status=status,
            entries=ledger.entries,
            last_round=ledger.last_round,
            chain_head=ledger.head.hex(),
            spec_hash=self.spec_hash,
            subjects_hash=self.subjects_hash,
            witness=self.witness,
            salt_hash=None if ledger.salt is None else salt_hash(ledger.salt),
        )


ROUND_COMPLETED = "round.completed"
_LOSSES = ("selection_loss", "validation_loss")
_COSTS = ("leakage_max", "epsilon_max")


class DatabaseSink:
    """A `RunSink` of one stored experiment within one transaction, in which the caller holds its
    unit."""

    def __init__(self, session: Session, experiment_id: str, project_id: str) -> None:
        self._owner = (experiment_id, project_id)
        self._id = experiment_id
        self._session = session
        self._ledger = LedgerRepository(session)
        self._rounds = RoundRepository(session)

    # These methods are documented in `RunSink`.

    def write(self, block: Block) -> None:
        self._ledger.insert(*self._owner, [ledger_row(one) for one in block.ledger])
        self._rounds.insert(*self._owner, [RoundRow(**vars(one)) for one in block.rounds])
        fairness = [FairnessRow(**vars(one)) for one in block.fairness]
        FairnessRepository(self._session).insert(*self._owner, fairness)

    def hashed_rows(self) -> Iterator[Row]:
        return self._ledger.digests(self._id)

    def entries_of_round(self, round_: int) -> list[LedgerEntry]:
        rows = self._ledger.rows_after(self._id, round_from=round_, round_to=round_)
        return [entry_of(row) for row in rows]

    def last_fairness(self, attribute: str, *, rounds: int) -> list[dict[str, float | None]]:
        rows = FairnessRepository(self._session).last(self._id, attribute, rounds=rounds)
        return [values_by_metric(row.figures) for row in rows]


def store_totals(
    session: Session, experiment_id: str, project_id: str, ledger: LedgerWriter
) -> None:
    """Overwrite the experiment's running totals, inside a fenced transaction."""
    LedgerRepository(session).put_totals(
        experiment_id,
        project_id,
        releases=ledger.totals,
        refusals=ledger.spending.refusals,
        withheld=ledger.spending.withheld,
    )


def round_events(block: Block) -> list[tuple[str, dict[str, Any]]]:
    """An event for each round."""
    return [
        (
            ROUND_COMPLETED,
            {
                **{name: getattr(one, name) for name in ("round", *_LOSSES, *_COSTS)},
                "reasons": {name: one.reasons[name] for name in _COSTS if name in one.reasons},
            },
        )
        for one in block.rounds
    ]


def ledger_row(written: WrittenEntry) -> LedgerRow:
    """The row that holds an entry."""
    fields = stored_fields(written.entry)
    return LedgerRow(**fields, digest=written.digest, link=written.link)


@dataclass(frozen=True)
class Played:
    """A block of an experiment's rounds to be stored, with the state to resume from."""

    experiment: RunningExperiment
    block: Block
    checkpoint: bytes


def store_blocks(session: Session, played: Sequence[Played], *, again: bool = False) -> set[str]:
    """Write blocks of rounds of one project's experiments, their checkpoints and totals; returns
    the ids of those to be cancelled. `again`: the blocks may have been stored already."""
    if not played:
        return set()
    project_id = played[0].experiment.project_id
    ledger = LedgerRepository(session)
    new = [
        one
        for one in played
        if not (again and ledger.last_link(one.experiment.id) == one.experiment.run.ledger.head)
    ]
    with gathered_writes(session):
        for one in new:
            run, owner = one.experiment.run, (one.experiment.id, project_id)
            DatabaseSink(session, *owner).write(one.block)
            store_totals(session, *owner, run.ledger)
            CheckpointRepository(session).put(*owner, round=run.rounds_done, data=one.checkpoint)
        events = {one.experiment.id: round_events(one.block) for one in new}
        EventRepository(session).append_each(project_id, events)
    done = {one.experiment.id: one.experiment.run.rounds_done for one in played}
    return ExperimentRepository(session, project_id).progress_each(done)


_FLUSH_SECONDS = 0.25
_FLUSH_ENTRIES = 60_000
_FLUSH_ROUNDS = 1_000
"""Over all experiments together: keeps a transaction on SQLite below 100 ms."""
_GROWTH = 4


class Pace:
    """As many rounds as fit into 250 ms and 60,000 client entries, and at least one."""

    def __init__(self) -> None:
        self._rounds = 1
        self._seconds_per_round: float | None = None

    def rounds(self, *, experiments: int, cohort: int) -> int:
        """Rounds of the next block for this many experiments with this many clients a round
        each."""
        most = max(1, min(_FLUSH_ENTRIES // (experiments * cohort), _FLUSH_ROUNDS // experiments))
        if self._seconds_per_round is not None:
            fitting = int(_FLUSH_SECONDS / max(self._seconds_per_round, 1e-9))
            # Growing step by step, because one quick round says little about the next thousand.
            self._rounds = max(1, min(fitting, _GROWTH * self._rounds))
        self._rounds = min(self._rounds, most)
        return self._rounds

    def took(self, rounds: int, seconds: float) -> None:
        """Record the last block's rounds, and how long they took."""
        self._seconds_per_round = seconds / max(1, rounds)
