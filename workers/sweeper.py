"""`python -m workers.sweeper`: publishes waiting units, reclaims units of lost workers, and
removes expired files and rows, and maps of gone data.

Any number may run; a row in the database gives the duty to one of them at a time. Webhooks are
delivered beside it, by each of them.
"""

import os
import signal
import socket
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from fedaudit.ledger.audit_log import AuditChain
from fedaudit.ledger.statements import SigningKey
from fedaudit.spec.disclosure import DisclosureFloor
from infrastructure.key_files import KeyFileError
from infrastructure.queue import Queue, QueueUnavailableError
from infrastructure.settings import Settings
from infrastructure.storage import Storage, StorageError, file_key, remove_left_over
from models.database import AWAY, Database
from models.repositories import (
    AuditLogRepository,
    CheckpointRepository,
    ExperimentRepository,
    ExpiredFileRepository,
    IdempotencyRepository,
    OldFileRepository,
    SweeperLeaseRepository,
    UnitRepository,
    UnitStackRepository,
    WebhookQueueRepository,
)
from models.repositories.files import OldFile
from models.repositories.units import MAX_LEASE_SECONDS
from models.tables.experiments import Unit
from workers.context import repeat, start
from workers.eraser import Eraser
from workers.finish import fail_unit
from workers.lost_rounds import LostRounds, count_ahead
from workers.proof.declared_signing import DeclaredLedgerSigner
from workers.proof.signing import (
    AuditLogSigner,
    SigningKeyFile,
    SignOffSigner,
    announce_key,
    sign_as_stored,
)
from workers.webhooks import WebhookDispatcher

_EVERY_SECONDS = 60.0
_REMOVED_AT_ONCE = 100


class Expiry:
    """Removes what is older than the settings allow, some of it in each turn."""

    def __init__(self, settings: Settings, database: Database, storage: Storage) -> None:
        self._settings = settings
        self._database = database
        self._storage = storage
        self._next = 0.0

    def expire(self) -> None:
        """A turn, at most once a minute. Raises SQLAlchemyError."""
        now = monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_SECONDS
        days = self._settings.keep_results_days
        if days is not None:
            with self._database.read() as session:
                old = OldFileRepository(session).old(days, _REMOVED_AT_ONCE)
            self._note(old, days)
        self._remove()
        self._forget_rows()
        remove_left_over(self._settings.scratch_dir)

    def _note(self, files: Sequence[OldFile], kept_days: int) -> None:
        """One transaction a project, with its entry in the audit log."""
        by_project = defaultdict[str, list[OldFile]](list)
        for one in files:
            by_project[one.project_id].append(one)
        for project_id, some in by_project.items():
            with self._database.write() as session:
                gone = ExpiredFileRepository(session, project_id)
                for one in some:
                    gone.note(
                        one.kind,
                        one.owner,
                        reason="expired",
                        kept_days=kept_days,
                        is_stored=one.is_stored,
                    )
                counted = Counter(one.kind for one in some if one.is_stored)
                for kind, count in sorted(counted.items()):
                    AuditLogRepository(session, project_id).enter(
                        "files.expired",
                        kind,
                        by=None,
                        origin="sweeper",
                        files=count,
                        kept_days=kept_days,
                    )

    def _remove(self) -> None:
        with self._database.read() as session:
            waiting = OldFileRepository(session).to_remove(_REMOVED_AT_ONCE)
        for file in waiting:
            try:
                with self._database.write() as session:
                    files = OldFileRepository(session)
                    # Locked: an upload of the same file waits, or took the note away.
                    if files.lock(file):
                        self._storage.delete(file_key(file.kind, file.project_id, file.owner))
                        files.removed(file)
            except StorageError as error:
                log.warning("expired files wait", detail=str(error)[:200])
                return

    def _forget_rows(self) -> None:
        checkpoints = timedelta(days=self._settings.keep_checkpoints_days)
        with self._database.write() as session:
            CheckpointRepository(session).forget_ended(checkpoints, limit=_REMOVED_AT_ONCE)
        repeats = timedelta(days=self._settings.keep_idempotency_days)
        with self._database.write() as session:
            IdempotencyRepository(session).forget(repeats, limit=10 * _REMOVED_AT_ONCE)
        deliveries = timedelta(days=self._settings.keep_deliveries_days)
        with self._database.write() as session:
            WebhookQueueRepository(session).forget(deliveries)


log = structlog.get_logger()

_DUTY = "sweeper"
_BATCH = 200
_WAITING = 2_000
"""Waiting units looked at in a tick."""
_DUTY_TICKS = 5
"""A sweeper that misses this many ticks loses the duty."""
_LONGEST_LEASES = 10
"""No worker is taken to have a lease that is so many times as long as those set here."""
_MAX_RETRY_SECONDS = 300.0


class Sweeper:
    """Runs one tick at a time; a tick that fails does not affect the next."""

    def __init__(self, settings: Settings, database: Database, queue: Queue) -> None:
        self._settings = settings
        self._database = database
        self._queue = queue
        self._key_file = SigningKeyFile(settings)
        self._storage = Storage(settings.storage_url)
        self._expiry = Expiry(settings, database, self._storage)
        self._lost_rounds = LostRounds(database)
        self._signed_logs: dict[str, AuditChain] = {}
        self._sign_with(self._key_file.current())
        self._refused: set[str] = set()
        """Ids of units that could not be reclaimed."""
        self._longest_lease = min(MAX_LEASE_SECONDS, _LONGEST_LEASES * settings.lease_seconds)
        self._holder = f"{socket.gethostname()}:{os.getpid()}"
        self.renewed_by = 0.0
        """When live workers have renewed what ran out in an outage; infinite while it may last."""

    def tick(self) -> bool:
        """Do a tick's work if this sweeper has the duty; returns whether it has. Lost workers come
        first and need no broker; messages wait for the next tick. Raises SQLAlchemyError."""
        seconds = _DUTY_TICKS * self._settings.sweep_seconds
        renewed_by, self.renewed_by = self.renewed_by, float("inf")
        with self._database.write() as session:
            duties = SweeperLeaseRepository(session)
            has_duty = duties.acquire(_DUTY, holder=self._holder, lease_seconds=seconds)
        self.renewed_by = min(renewed_by, monotonic() + self._settings.lease_seconds)
        if not has_duty:
            return False
        if (key := self._key_file.current()) is not self.key:
            self._sign_with(key)
        if monotonic() >= self.renewed_by:
            self._take_back()
        self._lost_rounds.enter_waiting()
        try:
            self._publish(self._waiting_too_long())
        except QueueUnavailableError as error:
            log.warning("broker away; messages wait", detail=str(error)[:200])
        # Last, because it may take long: units wait for no signature.
        for go_on in self._slow_work:
            go_on(_BATCH)
        self._expiry.expire()
        return True

    def _sign_with(self, key: SigningKey) -> None:
        self.key = key
        database = self._database
        floor = DisclosureFloor(minimum_group_size=self._settings.min_group_size)
        self._slow_work: list[Callable[[int], int]] = [
            SignOffSigner(database, key).sign_waiting,
            AuditLogSigner(database, key, signed=self._signed_logs).sign_waiting,
            DeclaredLedgerSigner(database, key, floor=floor).sign_waiting,
            Eraser(database, self._storage, key, self._lost_rounds).erase_waiting,
        ]

    def resign(self) -> None:
        """Give up the duty at once."""
        with self._database.write() as session:
            SweeperLeaseRepository(session).release(_DUTY, holder=self._holder)

    def _take_back(self) -> None:
        """End the units of lost workers, or free them to be published. Each in its own transaction,
        so that accounting blocks nothing and a faulty unit no other."""
        with self._database.read() as session:
            lost = UnitRepository(session).reclaimable(
                _BATCH, excluded=self._refused, longest_lease=self._longest_lease
            )
        for unit in lost:
            try:
                self._take_back_one(unit)
            except AWAY:
                raise
            except Exception:
                self._refused.add(unit.id)
                log.exception("unit not taken back", unit_id=unit.id)

    def _take_back_one(self, unit: Unit) -> None:
        """A worker that came back meanwhile keeps it."""
        if unit.attempts >= unit.max_attempts:
            with self._database.read() as session:
                ending = ExperimentRepository(session, unit.project_id).of_unit(unit.id)
            for one in ending:
                count_ahead(self._database, one.id, one.project_id)
        with self._database.write() as session:
            taken = UnitRepository(session).take_back(unit.id, longest_lease=self._longest_lease)
            if taken is None:
                return
            mine = ExperimentRepository(session, unit.project_id).of_unit(unit.id)
            ids = {"unit_id": unit.id, "experiment_id": " ".join(one.id for one in mine)}
            log.warning("unit taken back", **ids, state=taken.state)
            self._sign(session, taken)
            if taken.state == "waiting" and taken.attempts + 1 == unit.max_attempts:
                # Whatever took its workers gets one experiment alone in the last attempt.
                UnitStackRepository(session).take_apart(unit.id)

    def _sign(self, session: Session, unit: Unit) -> None:
        """Sign ledgers that lost their worker. Experiments that had ended are left as they are."""
        owner = unit.project_id
        if unit.state == "failed":
            why = unit.last_error or ""
            fail_unit(session, unit, reason="worker-lost", detail=why, shown=why, key=self.key)
            return
        for experiment in ExperimentRepository(session, owner).of_unit(unit.id):
            # One that waits has begun nothing: it is in no log of runs either.
            if experiment.finished_at is None and experiment.started_at is not None:
                sign_as_stored(session, experiment.id, owner, key=self.key)

    def _waiting_too_long(self) -> list[tuple[str, str]]:
        """Units whose message was not sent, or may be lost, checked less often the longer they
        wait: a unit may simply wait for a busy worker."""
        stale, due = self._settings.lease_seconds / 3, list[tuple[str, str]]()
        now, longest = datetime.now(UTC), timedelta(seconds=_MAX_RETRY_SECONDS)
        with self._database.write() as session:
            for unit in UnitRepository(session).stale_waiting(stale, limit=_WAITING):
                sent = unit.published_at
                # Ahead where the clock was set back.
                if sent is None or abs(now - sent) >= min(sent - unit.available_at, longest):
                    due.append((unit.id, unit.device))
        return due

    def _publish(self, units: list[tuple[str, str]]) -> None:
        sent: list[str] = []
        try:
            for unit_id, device in units:
                self._queue.publish_unit(unit_id, device)
                sent.append(unit_id)
        finally:
            # A queue that fails now and then must not be sent the same ones at every tick.
            if sent:
                with self._database.write() as session:
                    UnitRepository(session).mark_published(sent)


def sweep(sweeper: Sweeper, stop: threading.Event, *, seconds: float) -> None:
    """Tick until asked to stop."""
    repeat(sweeper.tick, lambda pause: not stop.wait(pause), seconds=seconds)
    try:
        sweeper.resign()
    except SQLAlchemyError as error:
        log.warning("duty left to its lease", error=type(error).__name__)


def main() -> int:
    """Sweep until a signal asks it to stop."""
    settings, database = start()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    sweeper = Sweeper(settings, database, Queue(settings))
    # A machine that started again may be the database's as well, and the workers' another.
    sweeper.renewed_by = 0.0 if settings.embedded else float("inf")
    announce_key(database, sweeper.key)
    dispatcher = None
    try:
        dispatcher = WebhookDispatcher(settings, database)
        dispatcher.start()
    except KeyFileError as error:
        # Without a key to their secrets none are delivered; one that is named must be usable.
        if settings.secrets_key_file is not None:
            raise SystemExit(str(error)) from None
        log.warning("webhooks are not delivered", reason=str(error))
    log.info("sweeper ready", every_seconds=settings.sweep_seconds)
    sweep(sweeper, stop, seconds=settings.sweep_seconds)
    if dispatcher is not None:
        dispatcher.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
