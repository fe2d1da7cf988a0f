"""A worker's claim on a unit: renewed while there is progress, fenced, finished or given back."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from time import monotonic, sleep
from typing import Generic, Self, TypeVar

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from infrastructure.queue import QueueUnavailableError
from models.database import AWAY, Database, outage
from models.repositories import UnitRepository, UnitStackRepository
from models.tables.experiments import Unit
from workers.context import ProjectFiles, WorkerContext
from workers.finish import fail_unit

log = structlog.get_logger()

_RENEWALS_PER_LEASE = 3
_SILENT_LEASES = 10
"""A main thread without progress for this many leases is considered to hang."""
_JOIN_SECONDS = 2.0


class LeaseLostError(Exception):
    """Another worker, the sweeper or a caller took the unit: nothing more may be written."""


class Lease:
    """Keeps a claim alive while the block runs. A thread renews it every third of the lease while
    the main thread calls `progressed`; a hanging main thread lets it expire."""

    def __init__(
        self,
        database: Database,
        claim: Unit,
        *,
        seconds: float,
        renewed: Callable[[], None] | None = None,
    ) -> None:
        """`renewed` is called in the thread after each renewal."""
        self.unit_id, self.fence = claim.id, claim.fence
        self.is_last_attempt = claim.attempts >= claim.max_attempts
        self.seconds = seconds
        self._database = database
        self._renewed = renewed
        self._progress = 0
        self._lost = threading.Event()
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        # The thread may be waiting for an unavailable database; it ends with the process at the
        # latest.
        self._thread.join(timeout=_JOIN_SECONDS)

    def progressed(self) -> None:
        """Report that the main thread is alive. Raises LeaseLostError once the claim is lost."""
        self._progress += 1
        if self._lost.is_set():
            raise LeaseLostError(f"unit {self.unit_id} was taken over from fence {self.fence}")

    def lose(self) -> LeaseLostError:
        """The error to raise after the database refused the fence."""
        self._lost.set()
        return LeaseLostError(f"unit {self.unit_id} is no longer held under fence {self.fence}")

    def _keep(self) -> None:
        seen, since = self._progress, monotonic()
        while not self._released.wait(self.seconds / _RENEWALS_PER_LEASE):
            if self._progress != seen:
                seen, since = self._progress, monotonic()
            elif monotonic() - since > _SILENT_LEASES * self.seconds:
                log.error("no progress; the lease is left to end", unit_id=self.unit_id)
                return
            if not self._renew():
                self._lost.set()
                return

    def _renew(self) -> bool:
        try:
            with self._database.write() as session:
                kept = UnitRepository(session).renew(self.unit_id, self.fence, self.seconds)
        except SQLAlchemyError as error:
            # Not lost: only the database can say whether another holder took the unit meanwhile.
            log.warning("lease not renewed", unit_id=self.unit_id, error=type(error).__name__)
            return True
        if kept and self._renewed is not None:
            self._renewed()
        return kept


T = TypeVar("T")

_OUTAGE_SECONDS = 600.0
"""How long results are kept in memory while the database is away."""
_STOPPING_OUTAGE_SECONDS = 8.0
"""The same for a stopping worker, which must exit within 30 seconds."""
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
        """Whether the work was tried before, and may have been stored."""

    def write(self, work: Callable[[Session], T]) -> T:
        """Commit `work` in one transaction, waiting for an unavailable database. The connection may
        break after the commit, so `work` may run again after it was stored: `again` says so, and it
        must then change nothing. Raises LeaseLostError, or DatabaseAwayError after ten minutes."""
        since, wait = monotonic(), _FIRST_WAIT_SECONDS
        self.again = False
        while True:
            self._lease.progressed()
            try:
                with self.database.write() as session:
                    if not UnitRepository(session).hold(self._lease.unit_id, self._lease.fence):
                        raise self._lease.lose()
                    return work(session)
            except AWAY as error:
                limit = _STOPPING_OUTAGE_SECONDS if self._stopping() else _OUTAGE_SECONDS
                if monotonic() - since > limit:
                    raise DatabaseAwayError(str(error)) from error
                log.warning("database away; trying again", **outage(error))
            self.again = True
            sleep(wait)
            wait = min(2 * wait, _MAX_WAIT_SECONDS)


DETAIL_CHARACTERS = 2000
"""Maximum length of a stored error message."""


class StopAskedError(Exception):
    """A signal asked this worker to stop."""


def go_on(context: WorkerContext, lease: Lease) -> None:
    """Called between parts of the work. Raises LeaseLostError, StopAskedError."""
    lease.progressed()
    if context.stopping():
        raise StopAskedError


class ClaimedUnit(ABC, Generic[T]):
    """A unit that this worker holds: run to its end, or given back. `T`: what it is to do."""

    def __init__(self, context: WorkerContext, claim: Unit, lease: Lease) -> None:
        self._context = context
        self._claim = claim
        self._lease = lease
        self._writer = FencedWriter(context.database, lease, stopping=context.stopping)
        self._progressed = partial(go_on, context, lease)

    def run(self) -> None:
        """Take the unit to its end, or give it back when the worker must stop."""
        log.info("unit claimed", kind=self._claim.kind, attempt=self._claim.attempts)
        try:
            # None where it was deleted, or has ended, in the meantime.
            if found := self._writer.write(self._start):
                self._carry_out(found)
            self._writer.write(lambda session: self._finish(session, "done"))
            log.info("unit done", kind=self._claim.kind)
        except StopAskedError:
            self._give_back()

    @abstractmethod
    def _start(self, session: Session) -> T | None:
        """What is to be done, which has begun; nothing where it has ended."""

    @abstractmethod
    def _carry_out(self, found: T) -> None:
        """Take it to its end. Raises StopAskedError."""

    def give_up(self, error: Exception) -> None:
        """After a worker error: the unit waits for another attempt, or fails permanently."""
        detail = f"{type(error).__name__}: {error}"[:DETAIL_CHARACTERS]

        def end(session: Session) -> None:
            if self._claim.attempts < self._claim.max_attempts:
                self._release(session, count_attempt=True)
                # So that whatever failed meets no other experiment in the next attempt.
                UnitStackRepository(session).take_apart(self._claim.id)
                return
            fail_unit(
                session,
                self._claim,
                reason="worker-error",
                detail=detail,
                shown="it failed through no fault of the data",
                key=self._context.signing_key,
            )
            self._finish(session, "failed", error=detail)

        try:
            self._writer.write(end)
        except (LeaseLostError, DatabaseAwayError) as lost:
            log.warning("could not give the unit back", error=type(lost).__name__)

    @property
    def _own(self) -> ProjectFiles:
        return ProjectFiles(self._context, self._claim.project_id)

    def _give_back(self) -> None:
        """Stopped by a signal: wake another worker at once, if the queue is available."""
        self._writer.write(lambda session: self._release(session, count_attempt=False))
        log.info("unit given back")
        with self._context.database.read() as session:
            unit = UnitRepository(session).get(self._claim.id)
        try:
            if unit is not None:
                self._context.queue.publish_unit(unit.id, unit.device)
        except QueueUnavailableError as error:
            log.warning("not published; left to the sweeper", error=str(error))

    def _release(self, session: Session, *, count_attempt: bool) -> None:
        units = UnitRepository(session)
        units.release(self._claim.id, self._claim.fence, count_attempt=count_attempt)

    def _finish(self, session: Session, state: str, *, error: str | None = None) -> None:
        units = UnitRepository(session)
        units.finish(self._claim.id, self._claim.fence, state, error=error)
