"""What all kinds of units have in common while a worker holds them."""

from abc import ABC, abstractmethod

import structlog
from sqlalchemy.orm import Session

from infrastructure.queue import QueueUnavailableError
from models.repositories import UnitRepository, UnitStackRepository
from models.values import Claim
from workers.claim import Lease, LeaseLostError
from workers.context import WorkerContext
from workers.flush import DatabaseAwayError, FencedWriter

log = structlog.get_logger()

DETAIL_CHARACTERS = 2000
"""Maximum length of a stored error message."""


class ClaimedUnit(ABC):
    """A unit that this worker holds: run to its end, or given back."""

    def __init__(self, context: WorkerContext, claim: Claim, lease: Lease) -> None:
        self._context = context
        self._claim = claim
        self._lease = lease
        self._writer = FencedWriter(context.database, lease, stopping=context.stopping)

    @abstractmethod
    def run(self) -> None:
        """Take the unit to its end, or give it back when the worker must stop."""

    @abstractmethod
    def _fail(self, session: Session, detail: str) -> None:
        """End the unit after its last attempt failed."""

    def give_up(self, error: Exception) -> None:
        """After a worker error: the unit waits for another attempt, or fails permanently."""
        detail = f"{type(error).__name__}: {error}"[:DETAIL_CHARACTERS]
        try:
            if self._claim.attempts < self._claim.max_attempts:
                self._writer.write(self._release_apart)
            else:
                self._writer.write(lambda session: self._fail(session, detail))
        except (LeaseLostError, DatabaseAwayError) as lost:
            log.warning("could not give the unit back", error=type(lost).__name__)

    def _release_apart(self, session: Session) -> None:
        """So that whatever failed meets no other experiment in the next attempt."""
        self._release(session, count_attempt=True)
        UnitStackRepository(session).take_apart(self._claim.unit_id)

    def _give_back(self) -> None:
        """Stopped by a signal: wake another worker at once, if the queue is available."""
        self._writer.write(lambda session: self._release(session, count_attempt=False))
        log.info("unit given back")
        with self._context.database.read() as session:
            unit = UnitRepository(session).get(self._claim.unit_id)
        try:
            if unit is not None:
                self._context.queue.publish_unit(unit.id, unit.device)
        except QueueUnavailableError as error:
            log.warning("not published; left to the sweeper", error=str(error))

    def _release(self, session: Session, *, count_attempt: bool) -> None:
        units = UnitRepository(session)
        units.release(self._claim.unit_id, self._claim.fence, count_attempt=count_attempt)

    def _finish(self, session: Session, state: str, *, error: str | None = None) -> None:
        units = UnitRepository(session)
        units.finish(self._claim.unit_id, self._claim.fence, state, error=error)
