"""What a project uses at this moment, counted so that nobody slips past a limit meanwhile."""

from sqlalchemy import delete, exists, func, select

from models.repositories.base import ScopedRepository, table_of
from models.tables.attacks.later_attacks import LaterAttacks
from models.tables.experiments import Experiment
from models.tables.federations import Federation
from models.tables.projects import Project
from models.tables.quotas.request_minutes import RequestMinute
from models.tables.uploads.artifacts import Artifact
from models.tables.uploads.pending_uploads import PendingUpload

_OPEN = ("queued", "running", "cancelling")


class ProjectUsageRepository(ScopedRepository):
    """Counts within the transaction that adds to them: count after adding, then roll back."""

    def hold(self) -> None:
        """Others of the project that hold wait until this transaction ends; call it last.

        Rows that refer to the project can be added all the same.
        """
        mine = select(Project.id).where(Project.id == self.project_id)
        self.session.execute(mine.with_for_update(key_share=True))

    def running(self) -> int:
        """Experiments, and attacks on ended ones, that are queued or have not ended."""
        found = 0
        for table in (Experiment, LaterAttacks):
            columns = table_of(table).c
            mine = (columns.project_id == self.project_id) & columns.status.in_(_OPEN)
            found += int(self.session.scalar(select(func.count()).where(mine)) or 0)
        return found

    def stored_bytes(self) -> int:
        """Of the files that the project uploaded and the service keeps."""
        total = 0
        for table in (Federation, Artifact, PendingUpload):
            columns = table_of(table).c
            kept = select(func.sum(columns.size_bytes)).where(columns.project_id == self.project_id)
            if table is Federation:
                # One that was registered by its path takes no room here.
                kept = kept.where(columns.storage_key.is_not(None))
            if table is PendingUpload:
                # While it is registered, a federation has the same file.
                stored = table_of(Federation).c
                same = stored.storage_key == columns.storage_key
                kept = kept.where(~exists().where(same, stored.project_id == self.project_id))
            total += int(self.session.scalar(kept) or 0)
        return total

    def count_request(self, minute: int) -> int:
        """Counts one more request in this minute; returns how many there were."""
        first = {"project_id": self.project_id, "minute": minute, "requests": 1}
        if self._insert_absent(RequestMinute, first):
            # The first of a minute tidies those before; a minute more for clocks that differ.
            columns = table_of(RequestMinute).c
            past = (columns.project_id == self.project_id) & (columns.minute < minute - 2)
            self._execute(delete(RequestMinute).where(past))
            return 1
        columns = table_of(RequestMinute).c
        mine = (columns.project_id == self.project_id) & (columns.minute == minute)
        counted = (
            table_of(RequestMinute)
            .update()
            .where(mine)
            .values(requests=columns.requests + 1)
            .returning(columns.requests)
        )
        return int(self.session.execute(counted).scalar_one())
