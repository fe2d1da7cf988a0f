"""The data of federations: which file an id names, what is kept of it, and what callers see."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from api.http.problems import conflict
from fedaudit.federations.federation import data_key
from fedaudit.spec.errors import error_at
from fedaudit.spec.experiment import ExperimentSpec
from infrastructure.settings import Settings
from infrastructure.storage import Storage
from models.database import Database
from models.repositories import FederationRepository
from models.tables.federations import Federation
from models.values import is_id

if TYPE_CHECKING:
    from fedaudit.federations.federation import Federation as LoadedFederation
    from fedaudit.federations.reading.source_files import MayRead, Upload


def ready_federation(session: Session, project_id: str, federation_id: str) -> Federation:
    """A project's federation that can be trained on. Raises InvalidInputError at /federation/id."""
    federations = FederationRepository(session, project_id)
    return usable(federations.get(federation_id) if is_id(federation_id) else None)


def usable(found: Federation | None) -> Federation:
    """What a spec names by its id, if it can be trained on; None where the project has no such
    one. Raises InvalidInputError."""
    if found is not None and found.status == "ready":
        return found
    message = "is no federation of this project; list them with GET /v1/federations"
    if found is not None:
        again = f"correct it by PUT /v1/federations/{found.id}/registration"
        remedies = {"profiling": "wait for its profile", "rejected": again}
        message = f"is {found.status}; {remedies.get(found.status, 'register its data again')}"
    raise error_at("/federation/id", message, of_spec=True)


def refuse_erased(known: Federation) -> None:
    """Raises ProblemError for data that were erased from the project."""
    if known.status == "erased":
        raise conflict(
            "these data were erased from this project; to use them again, with permission, "
            "register them anew (POST /v1/federations); what was spent on them stays spent",
            federation_id=known.id,
        )


_KEPT, _MAX_KEPT_BYTES = 4, 512 * 2**20
"""How many are kept at most, and what all of them together take."""


class FederationCache:
    """Loads what plans need of federations: of tables no features. How many at a time is up to the
    callers, of whom a project has one."""

    def __init__(self, settings: Settings, database: Database, storage: Storage) -> None:
        self._database, self._storage = database, storage
        self._sources_dir, self._scratch_dir = settings.sources_dir, settings.scratch_dir
        self._largest = settings.max_data_memory_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...] | None, LoadedFederation] = OrderedDict()

    def load(
        self, spec: ExperimentSpec, *, project_id: str, may_read: "MayRead | None"
    ) -> "LoadedFederation":
        """The data of a spec of a project, checked against the rest of it; `may_read`: which files
        below the sources folder the project may read, None for all. Raises InvalidInputError;
        StorageError where an uploaded file cannot be fetched."""
        # Only now: it brings pyarrow along, which would double the time that the API needs to
        # start.
        from fedaudit.federations.load import check_agreement, outline_federation
        from fedaudit.federations.reading.source_files import DataRoom, Files

        key = self._key(spec, project_id)
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None:
                self._kept[key] = kept  # now the newest
        if kept is not None:
            check_agreement(spec, kept)
            return kept
        room = DataRoom(self._largest, self._scratch_dir)
        opened = partial(self._opened, project_id, may_read)
        files = Files(self._sources_dir, opened, may_read, room)
        federation = outline_federation(spec, files=files)
        if key is not None:
            with self._lock:
                self._kept[key] = federation
                while len(self._kept) > _KEPT or self._kept_bytes > _MAX_KEPT_BYTES:
                    self._kept.popitem(last=False)
        return federation

    @property
    def _kept_bytes(self) -> int:
        return sum(one.nbytes + one.row_bytes for one in self._kept.values())

    def forget(self) -> None:
        """Keep none of what was loaded so far."""
        with self._lock:
            self._kept.clear()

    def _ready(self, project_id: str, federation_id: str) -> Federation:
        with self._database.read() as session:
            return ready_federation(session, project_id, federation_id)

    @contextmanager
    def _opened(
        self, project_id: str, may_read: "MayRead | None", federation_id: str
    ) -> Iterator["Upload"]:
        """A federation's file, on this machine while the block runs. Raises as `load`."""
        from fedaudit.federations.reading.source_files import Files, Upload, registered_file

        row = self._ready(project_id, federation_id)
        name = row.file_name or row.name
        if row.storage_key is None:
            files = Files(self._sources_dir, may_read=may_read)
            yield Upload(registered_file(row.registration, files=files), name, row.fingerprint)
            return
        with self._storage.local(row.storage_key) as path:
            yield Upload(path, name, row.fingerprint)

    def _key(self, spec: ExperimentSpec, project_id: str) -> tuple[object, ...] | None:
        """Everything that the loaded data depends on; None where a file cannot be found."""
        files: list[tuple[object, ...]] = []
        uploaded = getattr(spec.federation, "id", None)
        if uploaded is not None:
            # Asked for each time: whose it is, and whether it may still be used.
            files.append((project_id, self._ready(project_id, uploaded).fingerprint))
        for name in spec.federation.traits.files:
            # A project that may not read the file must not find it here either.
            files.append((project_id,))
            if self._sources_dir is None:
                return None
            try:
                found = (self._sources_dir / name).stat()
            except OSError:
                return None
            files.append((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))
        return (*data_key(spec), *files)
