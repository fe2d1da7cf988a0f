"""Audits of predictions, and attacks on experiments whose report is signed."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import defer

from models.person import Actor
from models.repositories.base import Row, RowRepository, table_of
from models.repositories.units import UnitRepository
from models.tables.experiments import LaterAttacks, PredictionAudit
from models.values import OPEN, Cursor, LaterAttacksStatus, Page, utc_now

OPEN_AUDITS = ("queued", "running")


class UnitTaskRepository(RowRepository[Row]):
    """Rows of one project, each the task of a unit, which a worker that writes holds."""

    _open: ClassVar[ColumnElement[bool]]

    def of_unit(self, unit_id: str) -> Row | None:
        """The task of a unit; None if it has ended."""
        return self._one(
            self._select(self._table).where(self._table.unit_id == unit_id, self._open)
        )

    def start(self, id: str) -> None:
        """queued -> running; the time of the first start stays."""
        started = func.coalesce(self._table.started_at, utc_now())
        self._update(id, self._table.status == "queued", status="running", started_at=started)


class AuditRepository(UnitTaskRepository[PredictionAudit]):
    """A project's audits."""

    _table = PredictionAudit
    _open = PredictionAudit.status.in_(OPEN_AUDITS)

    def list(self, *, cursor: Cursor | None = None, limit: int = 50) -> Page[PredictionAudit]:
        """Newest first, without their reports; the cursor is (id,)."""
        statement = self._select(PredictionAudit).options(defer(PredictionAudit.report))
        return self._page(statement, PredictionAudit.id, cursor, limit)

    def degenerate(self, ids: Sequence[str]) -> dict[str, bool | None]:
        """Whether the predictions of those with a report are degenerate; None if unknown."""
        degenerate = PredictionAudit.report["utility"]["degenerate"].as_boolean()
        found = self._select(PredictionAudit).with_only_columns(PredictionAudit.id, degenerate)
        ended = (PredictionAudit.id.in_(ids), PredictionAudit.status == "succeeded")
        return dict(self.session.execute(found.where(*ended)).all())

    def other_thresholds(self, row: PredictionAudit) -> int:
        """At how many other thresholds the project audited the same data, truth and score."""
        same = (
            PredictionAudit.project_id == self.project_id,
            PredictionAudit.fingerprint == row.fingerprint,
            PredictionAudit.scored == row.scored,
            PredictionAudit.status == "succeeded",
            PredictionAudit.threshold != row.threshold,
        )
        counted = select(func.count(PredictionAudit.threshold.distinct())).where(*same)
        return int(self.session.scalar(counted) or 0)

    # These change nothing if the audit has ended.

    def withhold(self, id: str, attributes: Sequence[str]) -> None:
        """Records the withheld attributes, once."""
        self._update(id, self._open, withheld=list(attributes))

    def succeed(self, id: str, report: Mapping[str, Any], *, report_hash: str) -> None:
        """running -> succeeded, with its report."""
        values = {"report": report, "gate_outcome": report["gate_outcome"]}
        ended = {"status": "succeeded", "finished_at": utc_now(), "report_hash": report_hash}
        self._update(id, self._open, **ended, **values)

    def fail(self, id: str, reason: str, faults: Sequence[Mapping[str, str]]) -> None:
        """queued or running -> failed, for {pointer, message}."""
        ended = {"status": "failed", "finished_at": utc_now()}
        self._update(id, self._open, **ended, status_reason=reason, faults=faults)


def attacked_experiments() -> Select[tuple[str]]:
    """The query of experiments with open attacks, which need the training data again."""
    columns = table_of(LaterAttacks).c
    return select(columns.experiment_id).where(columns.status.in_(OPEN))


class LaterAttacksRepository(UnitTaskRepository[LaterAttacks]):
    """A project's requests for attacks."""

    _table = LaterAttacks
    _open = LaterAttacks.status.in_(OPEN)

    def list(self, experiment_id: str) -> "Sequence[LaterAttacks]":
        """An experiment's requests, oldest first."""
        mine = self._select(LaterAttacks).where(LaterAttacks.experiment_id == experiment_id)
        return self._all(mine.order_by(LaterAttacks.number))

    def sections(self, experiment_id: str) -> "Sequence[Mapping[str, Any]]":
        """What all ended attacks found, oldest first: the sections of a report."""
        found = [one.statement for one in self.list(experiment_id) if one.alarms is not None]
        return [section for one in found if one is not None for section in one["attacks"]]

    def newest_envelope(self, experiment_id: str) -> Mapping[str, Any] | None:
        """The envelope of the newest signed request."""
        signed = [one.envelope for one in self.list(experiment_id) if one.alarms is not None]
        return signed[-1] if signed else None

    def request_cancel(self, row: LaterAttacks, *, by: Actor) -> None:
        """Cancels: at once if no worker has it, otherwise `cancelling` until the worker stops. No
        change if it has ended or was asked before."""
        asked = {"cancelled_by": vars(by)}
        if UnitRepository(self.session).withdraw(row.unit_id):
            self.end(row.id, "cancelled", reason="cancelled-by-caller")
            self._update(row.id, **asked)
        else:
            goes_on = (LaterAttacks.status != "cancelling", self._open)
            self._update(row.id, *goes_on, status="cancelling", **asked)

    def is_cancelling(self, id: str) -> bool:
        """Whether cancellation was asked for."""
        columns = table_of(LaterAttacks).c
        status = self.session.scalar(select(columns.status).where(columns.id == id))
        return bool(status == "cancelling")

    def end(
        self,
        id: str,
        status: LaterAttacksStatus,
        *,
        reason: str | None = None,
        detail: str | None = None,
        **found: Mapping[str, Any] | int,
    ) -> bool:
        """Ends it, with `statement`, `envelope` and `alarms` if anything was tried; False if it has
        ended."""
        ended = {"status_reason": reason, "status_detail": detail, "finished_at": utc_now()}
        return self._update(id, self._open, status=status, **ended, **found)
