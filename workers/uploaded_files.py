"""The files of federations that a project's specs name by their id."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path

from fedaudit.federations.reading.source_files import Files, MayRead, Upload, open_path
from fedaudit.spec.errors import FieldError, InvalidInputError
from infrastructure.storage import stored_artifact
from models.repositories import FederationRepository, ProjectRepository
from models.tables.federations import Federation
from models.values import FederationStatus
from workers.context import WorkerContext

_POINTER = "/federation/id"
_HAS_DATA: dict[FederationStatus, bool] = {
    "profiling": True,
    "ready": True,
    "rejected": True,
    "deleted": False,
    "erased": False,
}


class ProjectFiles:
    """Locates the files of the specs of one project."""

    def __init__(self, context: WorkerContext, project_id: str) -> None:
        self._context = context
        self._project_id = project_id

    @property
    def files(self) -> Files:
        """For the loaders. What the operator's map no longer opens to the project is not there."""
        context = self._context
        return Files(context.settings.sources_dir, self.open, self._may_read, context.room)

    @cached_property
    def _may_read(self) -> MayRead | None:
        rights = self._context.settings.source_rights
        if rights is None:
            return None
        with self._context.database.read() as session:
            project = ProjectRepository(session).name(self._project_id)
        return partial(rights.admits, project)

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

    def artifact(self, artifact_id: str) -> bytes | None:
        """The content of a file of parameters; None where it is not there."""
        return stored_artifact(self._context.storage, self._project_id, artifact_id)

    def _below_sources(self, row: Federation) -> Path:
        """The location of a file that was registered by its path."""
        if row.registration is None:
            raise _unusable("is known by its file's path only; name the data by `path`")
        path, files = str(row.registration["federation"]["path"]), self.files
        with open_path(path, files=files, pointer=_POINTER):
            # Opened to check that it exists and lies below the folder.
            return (files.sources_dir or Path()).joinpath(path).resolve()


def _unusable(message: str) -> InvalidInputError:
    return InvalidInputError([FieldError(_POINTER, message)])
