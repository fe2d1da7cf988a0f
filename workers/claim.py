"""A worker's claim on a unit: taken, renewed while there is progress, and possibly lost."""

import threading
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Self

import structlog
from sqlalchemy.exc import SQLAlchemyError

from models.database import Database
from models.repositories import UnitRepository
from models.values import Claim

log = structlog.get_logger()

_RENEWALS_PER_LEASE = 3
_SILENT_LEASES = 10
"""A main thread without progress for this many leases is considered to hang."""
_JOIN_SECONDS = 2.0


class LeaseLostError(Exception):
    """Another worker, the sweeper or a caller took the unit: nothing more may be written."""


class Lease:
    """Keeps a claim alive while the block runs.

    A thread renews it every third of the lease, as long as the main thread calls `progressed`
    now and then; a hanging main thread lets the lease end, so that another worker takes over.
    """

    def __init__(
        self,
        database: Database,
        claim: Claim,
        *,
        seconds: float,
        silent_seconds: float | None = None,
        renewed: Callable[[], None] | None = None,
    ) -> None:
        """`silent_seconds`: the longest time without progress; ten leases by default.

        `renewed` is called, in the thread, after each renewal.
        """
        self.unit_id, self.fence, self.attempts = claim.unit_id, claim.fence, claim.attempts
        self.is_last_attempt = claim.attempts >= claim.max_attempts
        self.seconds = seconds
        self._silent_seconds = silent_seconds or _SILENT_LEASES * seconds
        self._database = database
        self._renewed = renewed
        self._progress = 0
        self._lost = threading.Event()
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
            elif monotonic() - since > self._silent_seconds:
                log.error("no progress; the lease is left to end", unit_id=self.unit_id)
                return
            if not self._renew():
                self._lost.set()
                return

    def _renew(self) -> bool:
        try:
            with self._database.write() as session:
                kept = UnitRepository(session).renew(
                    self.unit_id, self.fence, lease_seconds=self.seconds
                )
        except SQLAlchemyError as error:
            # Not lost: only the database can say whether another holder took the unit meanwhile.
            log.warning("lease not renewed", unit_id=self.unit_id, error=type(error).__name__)
            return True
        if kept and self._renewed is not None:
            self._renewed()
        return kept
