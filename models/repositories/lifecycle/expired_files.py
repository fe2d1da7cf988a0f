"""Files that are gone: noted before they are removed, so that whoever asks is told why."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, exists, select, update

from models.clock import seconds_from_now, utc_now
from models.repositories.base import Repository, ScopedRepository, table_of
from models.repositories.uploads.artifacts import is_unneeded
from models.tables.attacks.later_attacks import LaterAttacks
from models.tables.experiments import Experiment
from models.tables.lifecycle.expired_files import ExpiredFile
from models.tables.reports import Report
from models.tables.uploads.artifacts import Artifact
from models.values import FileKind, GoneReason

_DAY_SECONDS = 24 * 3600.0


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
        """Why the file is gone; None where nobody removed it."""
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
        """Notes that a file is about to be removed; an erasure replaces an earlier reason.

        `is_stored`: False where there is none to remove.
        """
        self._put(
            ExpiredFile,
            {
                "project_id": self.project_id,
                "kind": kind,
                "owner": owner,
                "reason": reason,
                "kept_days": kept_days,
                "expired_at": utc_now(),
                "removed_at": None if is_stored else utc_now(),
            },
        )

    def forget(self, kind: FileKind, owner: str) -> None:
        """The same file was brought again."""
        columns = table_of(ExpiredFile).c
        mine = (columns.project_id == self.project_id) & (columns.kind == kind)
        self._execute(delete(ExpiredFile).where(mine, columns.owner == owner))

    def erased_are_removed(self, owners: Sequence[str]) -> None:
        """The storage has none of these erased files any more."""
        columns = table_of(ExpiredFile).c
        mine = (columns.project_id == self.project_id) & (columns.reason == "erased")
        waiting = columns.owner.in_(owners) & columns.removed_at.is_(None)
        self._execute(update(ExpiredFile).where(mine, waiting).values(removed_at=utc_now()))


class OldFileRepository(Repository):
    """Files of all projects whose time is over, for the sweeper."""

    def results(self, kept_days: int, limit: int) -> Sequence[OldFile]:
        """Models, record tables and files of attacks of runs that succeeded so long ago, the oldest
        first; each run is looked at once, also where it left no model."""
        columns = table_of(Experiment).c
        noted = exists().where(ExpiredFile.kind == "model", ExpiredFile.owner == columns.id)
        sha256 = Report.document["model"]["sha256"].as_string()
        # Of its spec: what is asked for later leaves files of its own.
        attacked = Report.document["attacks"][0]["kind"].as_string()
        rows = self.session.execute(
            select(columns.project_id, columns.id, columns.mechanism, attacked, sha256)
            .outerjoin(Report, Report.experiment_id == columns.id)
            .where(
                columns.finished_at < seconds_from_now(-_DAY_SECONDS * kept_days),
                columns.status == "succeeded",
                ~noted,
            )
            .order_by(columns.finished_at)
            .limit(limit)
        )
        found = []
        for project_id, id_, mechanism, attack, model in rows:
            found.append(OldFile(project_id, "model", id_, is_stored=model is not None))
            if mechanism == "record-personalised":
                found.append(OldFile(project_id, "record-table", id_))
            if attack is not None:
                found.append(OldFile(project_id, "attack-files", id_))
        return found

    def later_attacks(self, kept_days: int, limit: int) -> Sequence[OldFile]:
        """Files of attacks on ended runs that were carried out so long ago, the oldest first."""
        columns = table_of(LaterAttacks).c
        noted = exists().where(ExpiredFile.kind == "attack-files", ExpiredFile.owner == columns.id)
        rows = self.session.execute(
            select(columns.project_id, columns.id)
            .where(
                columns.finished_at < seconds_from_now(-_DAY_SECONDS * kept_days),
                columns.alarms.is_not(None),
                ~noted,
            )
            .order_by(columns.finished_at)
            .limit(limit)
        )
        return [OldFile(project_id, "attack-files", id_) for project_id, id_ in rows]

    def artifacts(self, kept_days: int, limit: int) -> Sequence[OldFile]:
        """Parameters that were brought so long ago, and that no experiment started from or may
        still start from: one that has not ended, or that was submitted or ended since."""
        columns = table_of(Artifact).c
        old = select(columns.project_id, columns.sha256).where(is_unneeded(kept_days))
        rows = self.session.execute(old.order_by(columns.created_at).limit(limit))
        return [OldFile(project_id, "artifact", sha256) for project_id, sha256 in rows]

    def to_remove(self, limit: int) -> Sequence[ExpiredFile]:
        """Those that are noted, and that the storage may still have."""
        waiting = select(ExpiredFile).where(
            ExpiredFile.removed_at.is_(None), ExpiredFile.reason == "expired"
        )
        return self._all(waiting.order_by(ExpiredFile.expired_at).limit(limit))

    def lock(self, file: ExpiredFile) -> bool:
        """Whether it is still to be removed; nobody changes that until the transaction ends."""
        mine = select(ExpiredFile).where(
            ExpiredFile.project_id == file.project_id,
            ExpiredFile.kind == file.kind,
            ExpiredFile.owner == file.owner,
            ExpiredFile.removed_at.is_(None),
        )
        return self._one(mine.with_for_update()) is not None

    def removed(self, file: ExpiredFile) -> None:
        """Notes that the storage has it no more."""
        self._execute(
            update(ExpiredFile)
            .where(
                ExpiredFile.project_id == file.project_id,
                ExpiredFile.kind == file.kind,
                ExpiredFile.owner == file.owner,
            )
            .values(removed_at=utc_now())
        )
