"""Which files of parameters a project has, and which experiments start from them."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, delete, exists, select, update

from models.clock import seconds_from_now, utc_now
from models.identifiers import new_id
from models.person import Actor
from models.repositories.attacks.later_attacks import attacked_experiments
from models.repositories.base import ScopedRepository, table_of
from models.tables.experiments import Experiment
from models.tables.uploads.artifacts import Artifact
from models.values import ArtifactUse, Cursor, Page

_ENDED = ("cancelled", "succeeded", "failed")
_DAY_SECONDS = 24 * 3600.0


class ArtifactRepository(ScopedRepository):
    """A project's files of parameters."""

    def enter(
        self,
        sha256: str,
        *,
        name: str | None,
        size_bytes: int,
        hypotheses: int,
        parameters: int,
        created_by: Actor,
    ) -> None:
        """Enters a stored file; one that is known keeps its first name, date and author."""
        row: dict[str, Any] = {
            "id": new_id(),
            "project_id": self.project_id,
            "sha256": sha256,
            "name": name,
            "size_bytes": size_bytes,
            "hypotheses": hypotheses,
            "parameters": parameters,
            "created_by": created_by.as_dict(),
            "created_at": utc_now(),
        }
        if not self._insert_absent(Artifact, row) and name is not None:
            unnamed = (Artifact.sha256 == sha256) & Artifact.name.is_(None)
            mine = Artifact.project_id == self.project_id
            self._execute(update(Artifact).where(mine, unnamed).values(name=name))

    def get(self, sha256: str) -> Artifact | None:
        """One of them; None for a file that was stored before there was a list."""
        return self._one(self._select(Artifact).where(Artifact.sha256 == sha256))

    def list(self, *, cursor: Cursor | None, limit: int) -> Page[Artifact]:
        """Newest first; the cursor is (id,)."""
        statement = self._select(Artifact).order_by(Artifact.id.desc()).limit(limit + 1)
        if cursor is not None:
            statement = statement.where(Artifact.id < cursor[0])
        items = self._all(statement)
        return Page(items[:limit], (items[limit - 1].id,) if len(items) > limit else None)

    def uses(self, hashes: Sequence[str]) -> Mapping[str, Sequence[ArtifactUse]]:
        """By hash, the experiments that start from the file, newest first."""
        columns = table_of(Experiment).c
        named = columns.spec["model"]["start"]["artifact"].as_string()
        found: dict[str, list[ArtifactUse]] = {}
        if not hashes:
            return found
        rows = self.session.execute(
            select(named, columns.id, columns.name, columns.status)
            .where(columns.project_id == self.project_id, named.in_(hashes))
            .order_by(columns.id.desc())
        )
        for sha256, experiment_id, name, status in rows:
            found.setdefault(sha256, []).append(ArtifactUse(experiment_id, name, status))
        return found

    def expire(self, sha256: str, *, kept_days: int) -> bool:
        """Forgets one whose time is over; False where it is needed after all.

        Who admits an experiment that starts from it locks it too (`hold`).
        """
        mine = self._select(Artifact).where(Artifact.sha256 == sha256)
        if self._one(mine.with_for_update()) is None:
            return False
        # Only now, so that it sees what the one before it admitted.
        if self._one(mine.where(is_unneeded(kept_days))) is None:
            return False
        self.remove(sha256)
        return True

    def hold(self, sha256: str) -> None:
        """It does not expire until the transaction ends."""
        mine = self._select(Artifact).where(Artifact.sha256 == sha256)
        self._one(mine.with_for_update(key_share=True))

    def remove(self, sha256: str) -> None:
        """Forgets one."""
        mine = Artifact.project_id == self.project_id
        self._execute(delete(Artifact).where(mine, Artifact.sha256 == sha256))


def is_unneeded(kept_days: int) -> ColumnElement[bool]:
    """The condition that a file was brought so long ago, and no experiment starts from it that has
    not ended, that ended since, or that is being attacked."""
    columns, runs = table_of(Artifact).c, table_of(Experiment).c
    before = seconds_from_now(-_DAY_SECONDS * kept_days)
    needed = exists().where(
        runs.project_id == columns.project_id,
        runs.spec["model"]["start"]["artifact"].as_string() == columns.sha256,
        runs.status.not_in(_ENDED)
        | (runs.finished_at >= before)
        | runs.id.in_(attacked_experiments()),
    )
    return and_(columns.created_at < before, ~needed)
