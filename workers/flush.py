"""Fenced writes: every write of a worker begins by holding its unit."""

from collections.abc import Callable
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
    ExperimentRepository,
    LedgerRepository,
    UnitRepository,
)
from workers.claim import Lease
from workers.database_sink import DatabaseSink
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


def store_block(
    session: Session,
    experiment: RunningExperiment,
    block: Block,
    *,
    checkpoint: bytes,
    again: bool = False,
) -> bool:
    """Write a block of rounds, the checkpoint to resume from, and the totals.

    Returns whether the caller has asked for the experiment's end. `again`: the block may have been
    stored already.
    """
    experiments = ExperimentRepository(session, experiment.project_id)
    run, owner = experiment.run, (experiment.id, experiment.project_id)
    if not (again and LedgerRepository(session).last_link(experiment.id) == run.ledger.head):
        DatabaseSink(session, *owner).write(block)
        store_totals(session, *owner, run.ledger)
        CheckpointRepository(session).put(*owner, round=run.rounds_done, data=checkpoint)
    return experiments.progress(experiment.id, run.rounds_done)
