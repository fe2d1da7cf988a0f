"""What a worker needs for every unit: settings, database, queue, and the project's files."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

import structlog
from celery.worker import state
from sqlalchemy.exc import SQLAlchemyError

from fedaudit.federations.reading.source_files import DataRoom, Files, Upload, registered_file
from fedaudit.ledger.statements import SigningKey
from fedaudit.spec.errors import error_at
from infrastructure.logs import configure_logs
from infrastructure.queue import Queue
from infrastructure.settings import Settings, SettingsError, load_settings
from infrastructure.storage import Storage, stored_artifact
from models.database import Database, outage, schema_fault
from models.repositories import FederationRepository, ProjectRepository
from models.values import FederationStatus
from workers.disclosed import Disclosed
from workers.health import Heartbeat
from workers.proof.signing import SigningKeyFile

log = structlog.get_logger()


def start() -> tuple[Settings, Database]:
    """The settings and an open database; exits with a message if they are unusable. A database that
    does not respond yet is not an error."""
    try:
        settings = load_settings()
    except SettingsError as error:
        raise SystemExit(str(error)) from None
    configure_logs(settings.log_format)
    # A worker that froze in a transaction must not hold its unit longer than its lease.
    database = Database(settings.database_url, transaction_seconds=settings.lease_seconds)
    try:
        fault = schema_fault(database)
    except SQLAlchemyError as error:
        log.warning("database away; starting all the same", **outage(error))
        return settings, database
    if fault is not None:
        raise SystemExit(fault)
    return settings, database


_MAX_PAUSE_SECONDS = 10.0


def repeat(work: Callable[[], object], wait: Callable[[float], bool], *, seconds: float) -> None:
    """Work again and again while `wait`, which is given the pause in seconds, says so; after
    failures pauses are longer."""
    pause = seconds
    while wait(pause):
        try:
            work()
        except SQLAlchemyError as error:
            log.warning("database away", **outage(error))
        except Exception:
            log.exception("failed; it is tried again")
        else:
            pause = seconds
            continue
        pause = min(2 * pause, max(seconds, _MAX_PAUSE_SECONDS))


@dataclass(frozen=True)
class WorkerContext:
    """The resources with which a worker runs units."""

    settings: Settings
    database: Database
    queue: Queue
    device: str
    """`cpu` or `cuda:N`."""

    @cached_property
    def storage(self) -> Storage:
        """Where uploaded files and record tables are kept."""
        return Storage(self.settings.storage_url)

    @property
    def signing_key(self) -> SigningKey:
        """The signing key, as its file has it now; the process exits with a message where there
        is no key at first."""
        return self._key_file.current()

    @cached_property
    def _key_file(self) -> SigningKeyFile:
        return SigningKeyFile(self.settings)

    @cached_property
    def heartbeat(self) -> Heartbeat:
        """The sign of life that the health check looks for."""
        return Heartbeat(self.settings)

    @cached_property
    def disclosed(self) -> Disclosed:
        """What earlier reports disclosed, as far as this worker has read it."""
        return Disclosed()

    @property
    def device_kind(self) -> str:
        """`cpu` or `cuda`."""
        return self.device.partition(":")[0]

    @property
    def name(self) -> str:
        """The holder of a lease, for operators who look at the units."""
        return f"{socket.gethostname()}:{os.getpid()}:{self.device}"

    def stopping(self) -> bool:
        """Whether a signal asked this worker to stop after the work in hand."""
        return state.should_stop is not None or state.should_terminate is not None


_WITHOUT_DATA: tuple[FederationStatus, ...] = ("deleted", "erased")


class ProjectFiles:
    """Locates the files of the specs of one project."""

    def __init__(self, context: WorkerContext, project_id: str) -> None:
        self._context = context
        self._project_id = project_id

    @cached_property
    def files(self) -> Files:
        """Files for the loaders, without what the operator's map no longer opens to the project."""
        settings, may_read = self._context.settings, None
        if settings.source_rights is not None:
            with self._context.database.read() as session:
                project = ProjectRepository(session).name(self._project_id)
            may_read = partial(settings.source_rights.admits, project)
        room = DataRoom(settings.max_data_memory_bytes, settings.scratch_dir)
        return Files(settings.sources_dir, self.open, may_read, room)

    @contextmanager
    def open(self, federation_id: str) -> Iterator[Upload]:
        """The file of a federation while the block runs, whatever its status unless deleted: an
        admitted experiment may go on while the content is registered anew. Raises InvalidInputError
        if there is no file, StorageError."""
        with self._context.database.read() as session:
            row = FederationRepository(session, self._project_id).get(federation_id)
        if row is None or row.status in _WITHOUT_DATA:
            raise error_at("/federation/id", "its data was deleted; upload the file again")
        name = row.file_name or row.name
        if row.storage_key is None:
            place = registered_file(row.registration, files=self.files)
            yield Upload(place, name, row.fingerprint)
            return
        with self._context.storage.local(row.storage_key) as path:
            yield Upload(path, name, row.fingerprint)

    def artifact(self, artifact_id: str) -> bytes | None:
        """The content of a file of parameters; None where it is not there."""
        return stored_artifact(self._context.storage, self._project_id, artifact_id)
