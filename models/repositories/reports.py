"""Stored reports."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select

from models.clock import utc_now
from models.records import Cursor, Page
from models.repositories.base import ExperimentPartRepository
from models.tables.reports import Report


class ReportRepository(ExperimentPartRepository):
    """One report an experiment, written once."""

    def put(
        self, experiment_id: str, project_id: str, *, document: Mapping[str, Any], report_hash: str
    ) -> bool:
        """Stores the report; False where there is one, which stays as it is."""
        return self._insert_absent(
            Report,
            {
                "experiment_id": experiment_id,
                "project_id": project_id,
                "document": dict(document),
                "report_hash": report_hash,
                "created_at": utc_now(),
            },
        )

    def get(self, experiment_id: str) -> Report | None:
        """The report as stored."""
        return self._one(self._select(Report, experiment_id))

    def list(self, *, cursor: Cursor | None = None, limit: int = 50) -> Page[Report]:
        """Newest experiment first; the cursor is (experiment_id,)."""
        statement = select(Report).order_by(Report.experiment_id.desc()).limit(limit + 1)
        if self.project_id is not None:
            statement = statement.where(Report.project_id == self.project_id)
        if cursor is not None:
            statement = statement.where(Report.experiment_id < cursor[0])
        items = self._all(statement)
        more = len(items) > limit
        return Page(items[:limit], (items[limit - 1].experiment_id,) if more else None)
