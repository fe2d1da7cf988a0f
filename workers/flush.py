"""Fenced writes: every write of a worker begins by holding its unit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TypeVar

import structlog
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from fedaudit.runs.blocks import Block
from models.database import Database
from models.repositories import (
    CheckpointRepository,
    EventRepository,
    ExperimentRepository,
    LedgerRepository,
    UnitRepository,
    gathered_writes,
)
from workers.claim import Lease
from workers.database_sink import DatabaseSink, round_events
from workers.resume import store_totals
from workers.running_experiment import RunningExperiment

log = structlog.get_logger()

T = TypeVar("T")

_OUTAGE_SECONDS = 600.0
"""How long results are kept in memory while the database does not respond."""
_STOPPING_OUTAGE_SECONDS = 8.0
"""The same for a worker that was asked to stop: it must exit within 30 seconds."""
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.1, 2.0


class DatabaseAwayError(Exception):
    """The database did not respond for too long; unstored results are lost, and run again."""


class FencedWriter:
    """Transactions that commit only while this worker holds its unit."""

    def __init__(self, database: Database, lease: Lease, *, stopping: Callable[[], bool]) -> None:
        self.database = database
        self._lease = lease
        self._stopping = stopping
        self.again = False
        """Whether the work in hand was tried before, and may have been stored."""

    def write(self, work: Callable[[Session], T]) -> T:
        """Commit `work` in one transaction, waiting for an unavailable database.

        A connection may break after the commit and before its confirmation, so `work` may run again
        after it was stored: `again` says so, and it must then change nothing. Raises LeaseLostError
        where the unit has another holder, DatabaseAwayError after ten minutes.
        """
        since, wait = monotonic(), _FIRST_WAIT_SECONDS
        self.again = False
        while True:
            self._lease.progressed()
            try:
                with self.database.write() as session:
                    if not UnitRepository(session).hold(self._lease.unit_id, self._lease.fence):
                        raise self._lease.lose()
                    return work(session)
            except (OperationalError, InterfaceError, PoolTimeoutError) as error:
                limit = _STOPPING_OUTAGE_SECONDS if self._stopping() else _OUTAGE_SECONDS
                if monotonic() - since > limit:
                    raise DatabaseAwayError(str(error)) from error
                log.warning("database away; trying again", error=type(error).__name__)
            self.again = True
            sleep(wait)
            wait = min(2 * wait, _MAX_WAIT_SECONDS)


@dataclass(frozen=True)
class Played:
    """What an experiment of the unit played: to be stored, with the state to go on from."""

    experiment: RunningExperiment
    block: Block
    checkpoint: bytes


def store_blocks(session: Session, played: Sequence[Played], *, again: bool = False) -> set[str]:
    """Write blocks of rounds of experiments of one project, their checkpoints and totals.

    Returns the ids of those whose callers have asked for an end. `again`: the blocks may have been
    stored already.
    """
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
