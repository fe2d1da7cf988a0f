"""What the whole application shares: settings, database, queue, and data that was read."""

import threading
import time
from contextlib import AbstractContextManager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, cast

import structlog
from fastapi import Depends, Request
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from api.http.problems import unavailable
from api.shared.concurrency import LoadPool, StreamPlaces
from api.shared.federation_data import FederationCache
from api.shared.identities import Identities
from api.shared.ledger_states import LedgerStates
from api.shared.page_printer import PagePrinter
from fedaudit.privacy.accounting.accountant import composed_epsilon
from infrastructure.secrets_key import SecretBox
from infrastructure.settings import Settings
from infrastructure.storage import Storage, StorageError, remove_left_over
from models.database import Database, schema_fault
from models.repositories import Budgets, ProjectRepository, UploadRepository
from models.tables.federations import PendingUpload

if TYPE_CHECKING:
    from fedaudit.federations.reading.source_files import MayRead, SourceFile
    from infrastructure.queue import Queue

log = structlog.get_logger()

_EXPIRED_AT_ONCE = 100


class Resources:
    """Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError for a file of the settings that cannot be used."""
        if settings.secrets_key_file is not None:
            SecretBox(settings)  # tried now, and not with the first webhook
        self.settings = settings
        self.database = Database(settings.database_url)
        self.identities = Identities(settings, self.database)
        """People who sign in elsewhere."""
        self.storage = Storage(settings.storage_url)
        self.federations = FederationCache(settings, self.database, self.storage)
        self.open()
        self.ledgers = LedgerStates()
        """What declared ledgers came to."""
        self.stopping = threading.Event()
        """Set when the process is about to end: streams then end too."""
        self.streams = StreamPlaces()
        """Event streams that are open."""
        self._lock = threading.Lock()
        self._schema_right_at = float("-inf")

    def open(self) -> None:
        """What is closed for good, made anew: an application may be started again after its end."""
        self.loads = LoadPool(threads=self.settings.load_threads)
        """Where data are loaded and costs are planned."""
        self.printer = PagePrinter()
        """Where reports are printed as PDF files."""

    @property
    def queue(self) -> "Queue":
        """Made when it is first used: neither Celery nor a broker that is away delays a start."""
        with self._lock:
            return self._queue

    @cached_property
    def _queue(self) -> "Queue":
        from infrastructure.queue import Queue

        return Queue(self.settings)

    def check_schema(self, *, within: float = 0.0) -> None:
        """Raises ProblemError where the database's schema is not the one that this version needs;
        not asked again where it was right `within` so many seconds."""
        if time.monotonic() < self._schema_right_at + within:
            return
        self._schema_right_at = float("-inf")
        if fault := schema_fault(self.database):
            # Anyone may ask for the health, and the fault may name folders of this machine.
            log.error("schema of another version", fault=fault)
            raise unavailable("the database lacks this version's schema; run `fedaudit migrate`")
        self._schema_right_at = time.monotonic()

    def may_read(self, project_id: str) -> "MayRead | None":
        """Which files below the sources folder a project may read; None where no map is declared
        and all of them are open."""
        rights = self.settings.source_rights
        if rights is None:
            return None
        with self.database.read() as session:
            return partial(rights.admits, ProjectRepository(session).name(project_id))

    def open_source(
        self, project_id: str, path: str, *, pointer: str = "/federation/path"
    ) -> AbstractContextManager["SourceFile"]:
        """A file below the sources folder that the project may read. Raises InvalidInputError."""
        # Imported here because this package loads pyarrow.
        from fedaudit.federations.reading.source_files import Files, open_path

        files = Files(self.settings.sources_dir, may_read=self.may_read(project_id))
        return open_path(path, files=files, pointer=pointer)

    def budgets(self, session: Session, project_id: str) -> Budgets:
        """The budgets of a project, whose epsilons are composed."""
        return Budgets(session, project_id, price=composed_epsilon)

    def tidy_storage(self) -> None:
        """Remove what is left of uploads whose process was killed, and of those that no one
        registered in time."""
        try:
            if swept := self.storage.sweep():
                log.info("unfinished uploads removed", files=swept)
            self.remove_expired_uploads()
            remove_left_over(self.settings.scratch_dir)
        except (StorageError, SQLAlchemyError, OSError) as error:
            log.warning("storage not tidied", detail=str(error)[:200])

    def remove_expired_uploads(self) -> None:
        """Remove tables that no one registered in time. Raises StorageError."""
        with self.database.read() as session:
            expired = UploadRepository(session).expired(_EXPIRED_AT_ONCE)
        for upload in expired:
            self.discard_upload(upload)
            log.info("unregistered upload removed", upload_id=upload.id)

    def discard_upload(self, upload: PendingUpload) -> None:
        """Remove a table and its file, unless a federation has the file by now. Raises
        StorageError."""
        with self.database.write() as session:
            # The row first, which a registration of the file locks; it stays where the storage
            # fails, and can be discarded again.
            if UploadRepository(session).discard(upload):
                self.storage.delete(upload.storage_key)

    def close(self) -> None:
        """Close the connections."""
        self.stopping.set()
        self.loads.close()
        self.printer.close()
        if "_queue" in vars(self):
            self._queue.close()
        self.database.close()


async def _resources(request: Request) -> Resources:
    # A coroutine, because FastAPI has plain functions run by a thread, and waits for it.
    return cast(Resources, request.app.state.resources)


Shared = Annotated[Resources, Depends(_resources)]
