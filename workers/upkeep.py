"""What the sweeper removes: expired files and rows, maps of gone data."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from time import monotonic

import structlog
from sqlalchemy.exc import SQLAlchemyError

from infrastructure.settings import Settings
from infrastructure.storage import (
    Storage,
    StorageError,
    artifact_key,
    attack_files_key,
    model_key,
    record_table_key,
)
from models.database import Database
from models.repositories import (
    ArtifactRepository,
    AuditLogRepository,
    CheckpointRepository,
    ExpiredFileRepository,
    IdempotencyRepository,
    OldFileRepository,
    gone_contents,
)
from models.repositories.files import OldFile
from models.values import FileKind

log = structlog.get_logger()


def tidy_maps(settings: Settings, database: Database) -> None:
    """Remove maps of contents that were deleted or erased everywhere, and those long unused."""
    if settings.maps_dir is None or not settings.maps_dir.is_dir():
        return
    from fedaudit.federations.mapped import MapFolder

    folder = MapFolder(settings.maps_dir, settings.max_mapped_bytes)
    try:
        folder.tidy(partial(gone_contents, database))
    except (OSError, SQLAlchemyError) as error:
        log.warning("mapped data not tidied", detail=type(error).__name__)


_EVERY_SECONDS = 60.0
_ARTIFACTS_EVERY_SECONDS = 3600.0
"""Whether one is needed is looked up in the specs of its project's experiments."""
_BATCH = 100
_KEYS = {
    "artifact": artifact_key,
    "attack-files": attack_files_key,
    "model": model_key,
    "record-table": record_table_key,
}


class Expiry:
    """Removes what is older than the settings allow, some of it in each turn."""

    def __init__(self, settings: Settings, database: Database, storage: Storage) -> None:
        self._settings = settings
        self._database = database
        self._storage = storage
        self._next = self._next_artifacts = 0.0

    def expire(self) -> None:
        """A turn, at most once a minute. Raises SQLAlchemyError."""
        now = monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_SECONDS
        days = self._settings.keep_results_days
        if days is not None:
            with self._database.read() as session:
                files = OldFileRepository(session)
                old = [*files.results(days, _BATCH), *files.later_attacks(days, _BATCH)]
            self._note(old, days)
        days = self._settings.keep_artifacts_days
        if days is not None and now >= self._next_artifacts:
            self._next_artifacts = now + _ARTIFACTS_EVERY_SECONDS
            with self._database.read() as session:
                brought = OldFileRepository(session).artifacts(days, _BATCH)
            self._note(brought, days)
        self._remove()
        self._forget_rows()
        tidy_maps(self._settings, self._database)

    def _note(self, files: Sequence[OldFile], kept_days: int) -> None:
        """One transaction a project, with its entry in the audit log."""
        by_project = defaultdict[str, list[OldFile]](list)
        for one in files:
            by_project[one.project_id].append(one)
        for project_id, some in by_project.items():
            with self._database.write() as session:
                gone = ExpiredFileRepository(session, project_id)
                artifacts = ArtifactRepository(session, project_id)
                counted = defaultdict[FileKind, int](int)
                for one in some:
                    if one.kind == "artifact" and not artifacts.expire(
                        one.owner, kept_days=kept_days
                    ):
                        continue
                    gone.note(
                        one.kind,
                        one.owner,
                        reason="expired",
                        kept_days=kept_days,
                        is_stored=one.is_stored,
                    )
                    counted[one.kind] += one.is_stored
                for kind, count in sorted(counted.items()):
                    if not count:
                        continue
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
            waiting = OldFileRepository(session).to_remove(_BATCH)
        for file in waiting:
            try:
                with self._database.write() as session:
                    files = OldFileRepository(session)
                    # Locked: whoever brings the same file again waits, or took the note away.
                    if files.lock(file):
                        self._storage.delete(_KEYS[file.kind](file.project_id, file.owner))
                        files.removed(file)
            except StorageError as error:
                log.warning("expired files wait", detail=str(error)[:200])
                return

    def _forget_rows(self) -> None:
        checkpoints = timedelta(days=self._settings.keep_checkpoints_days)
        with self._database.write() as session:
            CheckpointRepository(session).forget_ended(checkpoints, limit=_BATCH)
        repeats = timedelta(days=self._settings.keep_idempotency_days)
        with self._database.write() as session:
            IdempotencyRepository(session).forget(repeats, limit=10 * _BATCH)
