"""The files of federations that a project's specs name by their id."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedaudit.federations.reading.source_files import Files, Upload, open_path
from fedaudit.spec.errors import FieldError, InvalidInputError
from models.repositories import FederationRepository
from models.tables.federations import Federation
from models.values import FederationStatus
from workers.context import WorkerContext

_POINTER = "/federation/id"
_HAS_DATA: dict[FederationStatus, bool] = {
    "profiling": True,
    "ready": True,
    "rejected": True,
    "deleted": False,
}


class ProjectFiles:
    """Locates the files of the specs of one project."""

    def __init__(self, context: WorkerContext, project_id: str) -> None:
        self._context = context
        self._project_id = project_id

    @property
    def files(self) -> Files:
        """For the loaders."""
        return Files(self._context.settings.sources_dir, self.open)

    @contextmanager
    def open(self, federation_id: str) -> Iterator[Upload]:
        """The file of a federation, on this machine while the block runs.

        Whatever its status, if it is not deleted: an experiment was admitted when it was ready,
        and may go on while the same content is registered anew. Raises InvalidInputError where
        there is no such file, StorageError where it cannot be fetched.
        """
        with self._context.database.read() as session:
            row = FederationRepository(session, self._project_id).get(federation_id)
        if row is None or not _HAS_DATA[row.status]:
            raise _unusable("its data was deleted; upload the file again")
        name = row.file_name or row.name
        if row.storage_key is None:
            yield Upload(self._below_sources(row), name, row.fingerprint)
            return
        with self._context.storage.local(row.storage_key) as path:
            yield Upload(path, name, row.fingerprint)

    def _below_sources(self, row: Federation) -> Path:
        """The location of a file that was registered by its path."""
        if row.registration is None:
            raise _unusable("is known by its file's path only; name the data by `path`")
        folder = self._context.settings.sources_dir
        path = str(row.registration["federation"]["path"])
        with open_path(path, files=Files(folder), pointer=_POINTER):
            # Opened to check that it exists and lies below the folder.
            return (folder or Path()).joinpath(path).resolve()


def _unusable(message: str) -> InvalidInputError:
    return InvalidInputError([FieldError(_POINTER, message)])
