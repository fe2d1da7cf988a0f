"""The federations that specs ask for, kept for a while: cells of a sweep share their data."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from api.shared.federation_files import Uploads
from fedaudit.federations.federation import data_key
from fedaudit.spec.experiment import ExperimentSpec
from infrastructure.settings import Settings

if TYPE_CHECKING:
    from fedaudit.federations.federation import Federation
    from fedaudit.federations.reading.source_files import DataRoom

_KEPT = 4
_MAX_KEPT_BYTES = 64 * 2**20


@dataclass
class _Turn:
    """At the same data; `takers` hold it or wait for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    takers: int = 0


class FederationCache:
    """Loads what plans need of federations, each kind once at a time: of tables no features. How
    many at a time is up to the callers."""

    def __init__(self, sources_dir: Path | None, settings: Settings | None = None) -> None:
        """`settings`: of the room that data may take; None for the defaults, without maps."""
        self._sources_dir = sources_dir
        self._settings = settings
        self._lock = threading.Lock()
        self._loading: dict[tuple[object, ...], _Turn] = {}
        self._kept: OrderedDict[tuple[object, ...], Federation] = OrderedDict()

    def load(self, spec: ExperimentSpec, *, uploads: Uploads) -> "Federation":
        """The data of a spec, checked against the rest of it; `uploads` are those of its project.

        Raises InvalidInputError; StorageError where an uploaded file cannot be fetched.
        """
        # Only now: it brings pyarrow along, which would double the time that the API needs to
        # start.
        from fedaudit.federations.agreement import check_agreement
        from fedaudit.federations.load import outline_federation
        from fedaudit.federations.reading.source_files import Files

        def loaded() -> "Federation":
            files = Files(
                self._sources_dir,
                uploads.open,
                uploads.may_read,
                self._room(),
                uploads.kept_content,
                uploads.index,
            )
            return outline_federation(spec, files=files)

        key = self._key(spec, uploads)
        if key is None:
            return loaded()
        with self._turn(key):
            kept = self._find(key)
            if kept is None:
                federation = loaded()
                self._keep(key, federation)
                return federation
        check_agreement(spec, kept)
        return kept

    def forget(self) -> None:
        """Keep none of what was loaded so far."""
        with self._lock:
            self._kept.clear()

    def _room(self) -> "DataRoom":
        from fedaudit.federations.reading.source_files import DataRoom

        settings = self._settings
        if settings is None:
            return DataRoom()
        return DataRoom(
            memory_bytes=settings.max_data_memory_bytes,
            maps_dir=settings.maps_dir,
            maps_bytes=settings.max_mapped_bytes,
        )

    @contextmanager
    def _turn(self, key: tuple[object, ...]) -> Iterator[None]:
        """Let one thread at a time load the same data: the next ones find them."""
        with self._lock:
            turn = self._loading.setdefault(key, _Turn())
            turn.takers += 1
        try:
            with turn.lock:
                yield
        finally:
            with self._lock:
                turn.takers -= 1
                if not turn.takers:
                    del self._loading[key]

    def _find(self, key: tuple[object, ...]) -> "Federation | None":
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: tuple[object, ...], federation: "Federation") -> None:
        if federation.nbytes + federation.row_bytes > _MAX_KEPT_BYTES:
            return
        with self._lock:
            self._kept[key] = federation
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)

    def _key(self, spec: ExperimentSpec, uploads: Uploads) -> tuple[object, ...] | None:
        """Everything that the loaded data depends on; None where a file cannot be looked at."""
        files: list[tuple[object, ...]] = []
        uploaded = getattr(spec.federation, "id", None)
        if uploaded is not None:
            # Asked for each time: whose it is, and whether it may still be used.
            files.append((uploads.project_id, uploads.fingerprint(uploaded)))
        for name in spec.federation.traits.files:
            # A project that may not read the file must not find it here either.
            files.append((uploads.project_id,))
            if self._sources_dir is None:
                return None
            try:
                found = (self._sources_dir / name).stat()
            except OSError:
                return None
            files.append((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))
        return (*data_key(spec), *files)
