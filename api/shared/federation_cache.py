"""The federations that specs ask for, kept for a while: cells of a sweep share their data."""

import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from api.shared.federation_files import Uploads
from fedaudit.spec.experiment import ExperimentSpec

if TYPE_CHECKING:
    from fedaudit.federations.federation import Federation

_KEPT = 4
_MAX_KEPT_BYTES = 64 * 2**20


class FederationCache:
    """Loads federations, one at a time: each may take hundreds of megabytes on the way."""

    def __init__(self, sources_dir: Path | None) -> None:
        self._sources_dir = sources_dir
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[object, ...], Federation] = OrderedDict()

    def load(self, spec: ExperimentSpec, *, uploads: Uploads) -> "Federation":
        """The data of a spec, checked against the rest of it; `uploads` are those of its project.

        Raises InvalidInputError; StorageError where an uploaded file cannot be fetched.
        """
        # Only now: it brings pyarrow along, which would double the time that the API needs to
        # start.
        from fedaudit.federations.agreement import check_agreement
        from fedaudit.federations.load import load_federation

        with self._lock:
            key = self._key(spec, uploads)
            kept = None if key is None else self._kept.get(key)
            if key is None or kept is None:
                federation = load_federation(
                    spec, sources_dir=self._sources_dir, open_upload=uploads.open
                )
                if key is not None and federation.nbytes <= _MAX_KEPT_BYTES:
                    self._keep(key, federation)
                return federation
            self._kept.move_to_end(key)
        check_agreement(spec, kept)
        return kept

    def _keep(self, key: tuple[object, ...], federation: "Federation") -> None:
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
            if self._sources_dir is None:
                return None
            try:
                found = (self._sources_dir / name).stat()
            except OSError:
                return None
            files.append((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns))
        return (
            spec.federation.model_dump_json(),
            spec.seed if spec.draws_data else None,
            tuple(spec.fairness.sensitive),
            repr(spec.fairness.edges),
            repr(spec.fairness.intersections),
            spec.training.loss,
            spec.model.kind,
            repr(getattr(spec.privacy, "budgets", None)),
            *files,
        )
