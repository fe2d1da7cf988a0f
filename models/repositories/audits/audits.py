"""Audits of predictions of one project."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import defer

from models.clock import utc_now
from models.identifiers import new_id
from models.person import Actor
from models.repositories.base import ScopedRepository
from models.tables.audits.audits import PredictionAudit
from models.values import Cursor, NewAudit, Page

OPEN = ("queued", "running")


class AuditRepository(ScopedRepository):
    """A project's audits; whoever writes for a worker holds its unit."""

    def create(self, audit: NewAudit, *, unit_id: str, by: Actor) -> PredictionAudit:
        """The audit, `queued`."""
        row = PredictionAudit(
            id=new_id(),
            project_id=self.project_id,
            status="queued",
            unit_id=unit_id,
            created_by=by.as_dict(),
            created_at=utc_now(),
            **vars(audit),
        )
        self.session.add(row)
        self.session.flush()
        return row

    def get(self, id: str) -> PredictionAudit | None:  # noqa: A002
        """One audit, or None where the project has no such one."""
        return self._one(self._select(PredictionAudit).where(PredictionAudit.id == id))

    def of_unit(self, unit_id: str) -> PredictionAudit | None:
        """The audit that a unit is to make; None where it has ended."""
        return self._one(
            self._select(PredictionAudit).where(
                PredictionAudit.unit_id == unit_id, PredictionAudit.status.in_(OPEN)
            )
        )

    def list(self, *, cursor: Cursor | None = None, limit: int = 50) -> Page[PredictionAudit]:
        """Newest first, without their reports; the cursor is (id,)."""
        statement = (
            self._select(PredictionAudit)
            .options(defer(PredictionAudit.report))
            .order_by(PredictionAudit.id.desc())
            .limit(limit + 1)
        )
        if cursor is not None:
            statement = statement.where(PredictionAudit.id < cursor[0])
        items = self._all(statement)
        return Page(items[:limit], (items[limit - 1].id,) if len(items) > limit else None)

    def degenerate(self, ids: Sequence[str]) -> dict[str, bool | None]:
        """Of those with a report, whether the predictions are degenerate; None where that is not
        known."""
        found = select(
            PredictionAudit.id, PredictionAudit.report["utility"]["degenerate"].as_boolean()
        ).where(
            PredictionAudit.project_id == self.project_id,
            PredictionAudit.id.in_(ids),
            PredictionAudit.status == "succeeded",
        )
        return dict(self.session.execute(found).all())

    def other_thresholds(self, row: PredictionAudit) -> int:
        """At how many other thresholds the project audited the same data, truth and score
        before."""
        same = (
            PredictionAudit.project_id == self.project_id,
            PredictionAudit.fingerprint == row.fingerprint,
            PredictionAudit.scored == row.scored,
            PredictionAudit.status == "succeeded",
            PredictionAudit.threshold != row.threshold,
        )
        counted = select(func.count(PredictionAudit.threshold.distinct())).where(*same)
        return int(self.session.scalar(counted) or 0)

    def start(self, id: str) -> None:  # noqa: A002
        """queued -> running; when it was first started stays."""
        self._change(
            id,
            {
                "status": "running",
                "started_at": func.coalesce(PredictionAudit.started_at, utc_now()),
            },
        )

    def withhold(self, id: str, attributes: Sequence[str]) -> None:  # noqa: A002
        """Notes which attributes nothing is said of, once."""
        self._change(id, {"withheld": list(attributes)})

    def succeed(self, id: str, report: Mapping[str, Any], *, report_hash: str) -> None:  # noqa: A002
        """running -> succeeded, with its report."""
        values = {
            "status": "succeeded",
            "report": dict(report),
            "report_hash": report_hash,
            "gate_outcome": report["gate_outcome"],
            "finished_at": utc_now(),
        }
        self._change(id, values)

    def fail(self, id: str, reason: str, faults: Sequence[Mapping[str, str]]) -> None:  # noqa: A002
        """queued or running -> failed, for {pointer, message}."""
        values = {"status_reason": reason, "faults": [dict(one) for one in faults]}
        self._change(id, {"status": "failed", "finished_at": utc_now(), **values})

    def _change(self, id: str, values: Mapping[str, Any]) -> None:  # noqa: A002
        """Changes nothing where the audit has ended."""
        self._execute(
            update(PredictionAudit)
            .where(
                PredictionAudit.id == id,
                PredictionAudit.project_id == self.project_id,
                PredictionAudit.status.in_(OPEN),
            )
            .values(dict(values))
        )
