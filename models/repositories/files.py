"""Files of projects: parameters, tables that wait for their registration, and what has expired."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, exists, select

from models.clock import seconds_from_now
from models.person import Actor
from models.repositories.base import Repository, ScopedRepository, table_of
from models.tables.base import Base
from models.tables.experiments import Experiment, LaterAttacks, Report
from models.tables.federations import Artifact, ExpiredFile, Federation, PendingUpload
from models.values import Cursor, FileKind, GoneReason, Page, new_id, utc_now

_DAY_SECONDS = 24 * 3600.0


class ArtifactRepository(ScopedRepository):
    """A project's files of parameters."""

    def enter(self, sha256: str, *, name: str | None, created_by: Actor, **content: int) -> None:
        """Enters a stored file; one that is known keeps its first name, date and author.
        `content`: the columns of what is in it."""
        entered = {"created_by": vars(created_by), "created_at": utc_now()}
        row = {"id": new_id(), "project_id": self.project_id, "sha256": sha256, "name": name}
        if not self._insert_absent(Artifact, {**row, **content, **entered}) and name is not None:
            unnamed = (Artifact.sha256 == sha256, Artifact.name.is_(None))
            self._set(Artifact, self._own(Artifact), *unnamed, name=name)

    def get(self, sha256: str) -> Artifact | None:
        """One of them; None for a file that was stored before there was a list."""
        return self._one(self._of(sha256))

    def _of(self, sha256: str) -> Select[Artifact]:
        return self._select(Artifact).where(Artifact.sha256 == sha256)

    def list(self, *, cursor: Cursor | None, limit: int) -> Page[Artifact]:
        """Newest first; the cursor is (id,)."""
        return self._page(self._select(Artifact), Artifact.id, cursor, limit)

    def uses(self, hashes: Sequence[str]) -> Mapping[str, Sequence[Row[Any]]]:
        """Experiments that start from each file, by its hash, newest first: id, name and status."""
        columns = table_of(Experiment).c
        named = columns.spec["model"]["start"]["artifact"].as_string()
        found: dict[str, list[Row[Any]]] = defaultdict(list)
        if not hashes:
            return found
        rows = self.session.execute(
            select(named.label("sha256"), columns.id, columns.name, columns.status)
            .where(self._own(Experiment), named.in_(hashes))
            .order_by(columns.id.desc())
        )
        for row in rows:
            found[row.sha256].append(row)
        return found

    def hold(self, sha256: str) -> None:
        """It is not removed until the transaction ends."""
        self._one(self._of(sha256).with_for_update(key_share=True))

    def remove(self, sha256: str) -> None:
        """Forgets one."""
        self._delete(Artifact, self._own(Artifact), Artifact.sha256 == sha256)


class PendingUploadRepository(ScopedRepository):
    """A project's uploads, each seen by the key that sent it alone."""

    def get(self, upload_id: str, *, api_key_id: str) -> PendingUpload | None:
        """The key's upload, if it has not expired."""
        return self._one(self._of_key(api_key_id).where(PendingUpload.id == upload_id))

    def of_key(self, api_key_id: str) -> Sequence[PendingUpload]:
        """The key's uploads that have not expired, newest first."""
        return self._all(self._of_key(api_key_id).order_by(PendingUpload.id.desc()))

    def _of_key(self, api_key_id: str) -> Select[PendingUpload]:
        mine = PendingUpload.api_key_id == api_key_id
        kept = PendingUpload.expires_at > seconds_from_now()
        return self._select(PendingUpload).where(mine, kept)

    def lock(self, upload_id: str, *, api_key_id: str) -> PendingUpload | None:
        """The key's upload, expired or not, locked; None if it was registered or removed
        meanwhile."""
        mine = (PendingUpload.id == upload_id, PendingUpload.api_key_id == api_key_id)
        return self._one(self._select(PendingUpload).where(*mine).with_for_update())

    def remove(self, upload_id: str) -> bool:
        """Removes an upload; False if it was removed before."""
        mine = (PendingUpload.id == upload_id, self._own(PendingUpload))
        return bool(self._delete(PendingUpload, *mine))


class UploadRepository(Repository):
    """Uploads of all projects."""

    def expired(self, limit: int) -> Sequence[PendingUpload]:
        """Some of those that have expired, the oldest first."""
        expired = select(PendingUpload).where(PendingUpload.expires_at <= seconds_from_now())
        return self._all(expired.order_by(PendingUpload.expires_at).limit(limit))

    def discard(self, upload: PendingUpload) -> bool:
        """Removes one; whether its file is to go too, as no federation has it by now."""
        found = self._delete(PendingUpload, PendingUpload.id == upload.id)
        return bool(found) and not self._exists(Federation.storage_key == upload.storage_key)


@dataclass(frozen=True)
class OldFile:
    """A file whose time is over."""

    project_id: str
    kind: FileKind
    owner: str
    """The experiment's id, that of later attacks, or the hash of an artifact."""
    is_stored: bool = True
    """False of a run that left no model."""


class ExpiredFileRepository(ScopedRepository):
    """What is gone of one project's files."""

    def get(self, kind: FileKind, owner: str) -> ExpiredFile | None:
        """Why the file is gone; None if it was not removed."""
        mine = self._select(ExpiredFile).where(ExpiredFile.kind == kind, ExpiredFile.owner == owner)
        return self._one(mine)

    def note(
        self,
        kind: FileKind,
        owner: str,
        *,
        reason: GoneReason,
        kept_days: int | None = None,
        is_stored: bool = True,
    ) -> None:
        """Records that a file is about to be removed; an erasure replaces an earlier reason.
        `is_stored`: False if there is no file."""
        row = {"project_id": self.project_id, "kind": kind, "owner": owner, "reason": reason}
        times = {"expired_at": utc_now(), "removed_at": None if is_stored else utc_now()}
        self._put(ExpiredFile, {**row, **times, "kept_days": kept_days})

    def forget(self, kind: FileKind, owner: str) -> None:
        """The same file was brought again."""
        mine = (self._own(ExpiredFile), ExpiredFile.kind == kind)
        self._delete(ExpiredFile, *mine, ExpiredFile.owner == owner)

    def erased_are_removed(self, owners: Sequence[str]) -> None:
        """The storage has none of these erased files any more."""
        mine = (self._own(ExpiredFile), ExpiredFile.reason == "erased")
        waiting = (ExpiredFile.owner.in_(owners), ExpiredFile.removed_at.is_(None))
        self._set(ExpiredFile, *mine, *waiting, removed_at=utc_now())


class OldFileRepository(Repository):
    """Files of all projects whose time is over, for the sweeper."""

    def old(self, kept_days: int, limit: int) -> Sequence[OldFile]:
        """Models, record tables and attack files of runs that succeeded so long ago, each run
        examined once, even without a model; and files of later attacks that are as old. The oldest
        of at most `limit` runs and requests."""
        columns = table_of(Experiment).c
        sha256 = Report.document["model"]["sha256"].as_string()
        # Only attacks of its spec: later attacks leave their own files.
        attacked = Report.document["attacks"][0]["kind"].as_string()
        old = (
            select(columns.project_id, columns.id, columns.mechanism, attacked, sha256)
            .outerjoin(Report, Report.experiment_id == columns.id)
            .where(columns.status == "succeeded")
        )
        found = []
        for project_id, id_, mechanism, attack, model in self._old(
            old, Experiment, "model", kept_days, limit
        ):
            found.append(OldFile(project_id, "model", id_, is_stored=model is not None))
            if mechanism == "record-personalised":
                found.append(OldFile(project_id, "record-table", id_))
            if attack is not None:
                found.append(OldFile(project_id, "attack-files", id_))
        later = table_of(LaterAttacks).c
        tried = select(later.project_id, later.id).where(later.alarms.is_not(None))
        rows = self._old(tried, LaterAttacks, "attack-files", kept_days, limit)
        return [*found, *(OldFile(project_id, "attack-files", id_) for project_id, id_ in rows)]

    def _old(
        self, found: Select[Any], table: type[Base], kind: FileKind, kept_days: int, limit: int
    ) -> Iterable[Any]:
        """Rows that ended so long ago and have no note of such a file, the oldest first."""
        columns = table_of(table).c
        noted = exists().where(ExpiredFile.kind == kind, ExpiredFile.owner == columns.id)
        before = columns.finished_at < seconds_from_now(-_DAY_SECONDS * kept_days)
        old = found.where(before, ~noted).order_by(columns.finished_at)
        return self.session.execute(old.limit(limit))

    def to_remove(self, limit: int) -> Sequence[ExpiredFile]:
        """Those that are noted, and that the storage may still have."""
        waiting = select(ExpiredFile).where(
            ExpiredFile.removed_at.is_(None), ExpiredFile.reason == "expired"
        )
        return self._all(waiting.order_by(ExpiredFile.expired_at).limit(limit))

    def lock(self, file: ExpiredFile) -> bool:
        """Whether it is still to be removed; locked until the transaction ends."""
        waiting = select(ExpiredFile).where(*_same(file), ExpiredFile.removed_at.is_(None))
        return self._one(waiting.with_for_update()) is not None

    def removed(self, file: ExpiredFile) -> None:
        """Notes that the storage has it no more."""
        self._set(ExpiredFile, *_same(file), removed_at=utc_now())


def _same(file: ExpiredFile) -> tuple[ColumnElement[bool], ...]:
    names = ("project_id", "kind", "owner")
    return tuple(table_of(ExpiredFile).c[name] == getattr(file, name) for name in names)
