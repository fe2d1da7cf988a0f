"""Federations that specs name by their id: what the id leads to, and opening the file."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, assert_never

from sqlalchemy.orm import Session

from fedaudit.spec.errors import FieldError, InvalidInputError
from infrastructure.storage import Storage, StorageError, table_index_key
from models.database import Database
from models.identifiers import is_id
from models.repositories import FederationRepository
from models.tables.federations import Federation

if TYPE_CHECKING:
    from fedaudit.federations.reading.source_files import MayRead, Upload

_POINTER = "/federation/id"
_NOT_READY: dict[Literal["profiling", "rejected", "deleted", "erased"], str] = {
    "profiling": "is still being profiled; try again when its status is `ready`",
    "rejected": "was rejected, for the reasons that it shows; upload it with another registration",
    "deleted": "was deleted; upload the file again",
    "erased": "was erased; who may use these data again registers them again",
}


class Uploads:
    """The federations of one project that specs may name by id."""

    def __init__(
        self,
        project_id: str,
        *,
        database: Database,
        storage: Storage,
        sources_dir: Path | None,
        may_read: "MayRead | None" = None,
    ) -> None:
        """`sources_dir`: where files lie that were registered by their path; `may_read`: which of
        them the project may read, None for all."""
        self.project_id = project_id
        self.may_read = may_read
        self._database = database
        self._storage = storage
        self._sources_dir = sources_dir

    def fingerprint(self, federation_id: str) -> str:
        """SHA-256 of the content that the id stands for. Raises InvalidInputError."""
        return self._ready(federation_id).fingerprint

    @contextmanager
    def open(self, federation_id: str) -> Iterator["Upload"]:
        """The file, on this machine while the block runs.

        Raises InvalidInputError where the federation cannot be used, StorageError where its file
        cannot be fetched.
        """
        from fedaudit.federations.reading.source_files import Upload

        row = self._ready(federation_id)
        name = row.file_name or row.name
        if row.storage_key is None:
            yield Upload(self._below_sources(row), name, row.fingerprint)
            return
        with self._storage.local(row.storage_key) as path:
            yield Upload(path, name, row.fingerprint)

    def kept_content(self, federation_id: str) -> str | None:
        """The fingerprint of an uploaded file; None where it lies in the sources folder, or is not
        stored any more. Raises InvalidInputError where the federation cannot be used, StorageError.
        """
        row = self._ready(federation_id)
        if row.storage_key is None or not self._storage.holds(row.storage_key):
            return None
        return row.fingerprint

    @contextmanager
    def index(self, fingerprint: str) -> Iterator[Path | None]:
        """The index of a content that the project registered; None where none can be had."""
        with self._database.read() as session:
            row = FederationRepository(session, self.project_id).find(fingerprint)
        place = None
        with ExitStack() as opened:
            if row is not None:
                key = table_index_key(self.project_id, row.id)
                with suppress(StorageError):  # then the data themselves are read
                    if self._storage.holds(key):
                        place = opened.enter_context(self._storage.local(key))
            yield place

    def _ready(self, federation_id: str) -> Federation:
        with self._database.read() as session:
            return ready_federation(session, self.project_id, federation_id)

    def _below_sources(self, row: Federation) -> Path:
        """Where a file lies that was registered by its path."""
        from fedaudit.federations.reading.source_files import Files, open_path

        if row.registration is None:
            raise _unusable("is known by its file's path only; name the data by `path`")
        folder = self._sources_dir
        path = str(row.registration["federation"]["path"])
        with open_path(path, files=Files(folder, may_read=self.may_read), pointer=_POINTER):
            # Opened to find out that it is there and lies below the folder.
            return (folder or Path()).joinpath(path).resolve()


def ready_federation(session: Session, project_id: str, federation_id: str) -> Federation:
    """A project's federation that can be trained on. Raises InvalidInputError at /federation/id."""
    federations = FederationRepository(session, project_id)
    return usable(federations.get(federation_id) if is_id(federation_id) else None)


def usable(found: Federation | None) -> Federation:
    """What a spec names by its id, if it can be trained on; None where the project has no such
    one. Raises InvalidInputError."""
    if found is None:
        raise _unusable("is no federation of this project; list them with GET /v1/federations")
    match found.status:
        case "ready":
            return found
        case "profiling" | "rejected" | "deleted" | "erased" as status:
            raise _unusable(_NOT_READY[status])
        case _:
            assert_never(found.status)


def _unusable(message: str) -> InvalidInputError:
    return InvalidInputError([FieldError(_POINTER, message, of_spec=True)])
