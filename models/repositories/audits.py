"""Audits of predictions, and attacks on experiments whose report is signed."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, func, select, update
from sqlalchemy.orm import defer

from models.clock import utc_now
from models.identifiers import new_id
from models.person import Actor
from models.repositories.base import ScopedRepository, table_of
from models.repositories.units import UnitRepository
from models.tables.reports import LaterAttacks, PredictionAudit
from models.values import Cursor, FoundLater, LaterAttacksStatus, NewAudit, Page

OPEN_AUDITS = ("queued", "running")


class AuditRepository(ScopedRepository):
    """A project's audits; whoever writes for a worker holds its unit."""

    def create(self, audit: NewAudit, *, unit_id: str, by: Actor) -> PredictionAudit:
        """The audit, `queued`."""
        return self._add(
            PredictionAudit(
                id=new_id(),
                project_id=self.project_id,
                status="queued",
                unit_id=unit_id,
                created_by=by.as_dict(),
                created_at=utc_now(),
                **vars(audit),
            )
        )

    def get(self, id: str) -> PredictionAudit | None:
        """One audit, or None where the project has no such one."""
        return self._one(self._select(PredictionAudit).where(PredictionAudit.id == id))

    def of_unit(self, unit_id: str) -> PredictionAudit | None:
        """The audit that a unit is to make; None where it has ended."""
        return self._one(
            self._select(PredictionAudit).where(
                PredictionAudit.unit_id == unit_id, PredictionAudit.status.in_(OPEN_AUDITS)
            )
        )

    def list(self, *, cursor: Cursor | None = None, limit: int = 50) -> Page[PredictionAudit]:
        """Newest first, without their reports; the cursor is (id,)."""
        statement = self._select(PredictionAudit).options(defer(PredictionAudit.report))
        return self._page(statement, PredictionAudit.id, cursor, limit)

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

    def start(self, id: str) -> None:
        """queued -> running; when it was first started stays."""
        self._change(
            id,
            {
                "status": "running",
                "started_at": func.coalesce(PredictionAudit.started_at, utc_now()),
            },
        )

    def withhold(self, id: str, attributes: Sequence[str]) -> None:
        """Notes which attributes nothing is said of, once."""
        self._change(id, {"withheld": list(attributes)})

    def succeed(self, id: str, report: Mapping[str, Any], *, report_hash: str) -> None:
        """running -> succeeded, with its report."""
        values = {
            "status": "succeeded",
            "report": dict(report),
            "report_hash": report_hash,
            "gate_outcome": report["gate_outcome"],
            "finished_at": utc_now(),
        }
        self._change(id, values)

    def fail(self, id: str, reason: str, faults: Sequence[Mapping[str, str]]) -> None:
        """queued or running -> failed, for {pointer, message}."""
        values = {"status_reason": reason, "faults": [dict(one) for one in faults]}
        self._change(id, {"status": "failed", "finished_at": utc_now(), **values})

    def _change(self, id: str, values: Mapping[str, Any]) -> None:
        """Changes nothing where the audit has ended."""
        self._execute(
            update(PredictionAudit)
            .where(
                PredictionAudit.id == id,
                PredictionAudit.project_id == self.project_id,
                PredictionAudit.status.in_(OPEN_AUDITS),
            )
            .values(dict(values))
        )


OPEN_ATTACKS: tuple[LaterAttacksStatus, ...] = ("queued", "running", "cancelling")


def attacked_experiments() -> Select[tuple[str]]:
    """The ids of experiments with attacks that have not ended, for the condition of a query: what
    these were trained with is needed again."""
    columns = table_of(LaterAttacks).c
    return select(columns.experiment_id).where(columns.status.in_(OPEN_ATTACKS))


class LaterAttacksRepository(ScopedRepository):
    """A project's requests; whoever writes for a worker holds its unit."""

    def next_number(self, experiment_id: str) -> int:
        """The number of the request to come; others wait until this transaction ends."""
        return self._next_number(LaterAttacks, experiment_id)

    def add(
        self,
        experiment_id: str,
        *,
        number: int,
        asked: Sequence[Mapping[str, Any]],
        report_hash: str,
        ledger_hash: str,
        unit_id: str,
        by: Actor,
    ) -> LaterAttacks:
        """The request, `queued`."""
        return self._add(
            LaterAttacks(
                id=new_id(),
                experiment_id=experiment_id,
                number=number,
                project_id=self.project_id,
                status="queued",
                asked=[dict(one) for one in asked],
                report_hash=report_hash,
                ledger_hash=ledger_hash,
                unit_id=unit_id,
                created_by=by.as_dict(),
                created_at=utc_now(),
            )
        )

    def get(self, id: str) -> LaterAttacks | None:
        """One request as it is now; None where the project has no such one."""
        return self._one(self._select(LaterAttacks).where(LaterAttacks.id == id))

    def of_unit(self, unit_id: str) -> LaterAttacks | None:
        """What a unit is to carry out; None where it has ended."""
        mine = (LaterAttacks.unit_id == unit_id, LaterAttacks.status.in_(OPEN_ATTACKS))
        return self._one(self._select(LaterAttacks).where(*mine))

    def list(self, experiment_id: str) -> "Sequence[LaterAttacks]":
        """An experiment's requests, oldest first."""
        mine = self._select(LaterAttacks).where(LaterAttacks.experiment_id == experiment_id)
        return self._all(mine.order_by(LaterAttacks.number))

    def sections(self, experiment_id: str) -> "Sequence[Mapping[str, Any]]":
        """What all of its ended attacks found, oldest first: the sections of a report."""
        columns = table_of(LaterAttacks).c
        found = self.session.scalars(
            select(columns.statement)
            .where(
                columns.project_id == self.project_id,
                columns.experiment_id == experiment_id,
                columns.alarms.is_not(None),
            )
            .order_by(columns.number)
        )
        return [section for statement in found for section in statement["attacks"]]

    def newest_envelope(self, experiment_id: str) -> Mapping[str, Any] | None:
        """That of the newest one that is signed."""
        signed = (
            self._select(LaterAttacks)
            .where(LaterAttacks.experiment_id == experiment_id, LaterAttacks.alarms.is_not(None))
            .order_by(LaterAttacks.number.desc())
        )
        row = self._one(signed.limit(1))
        return None if row is None else row.envelope

    def start(self, id: str) -> None:
        """queued -> running; when it was first started stays."""
        started = func.coalesce(LaterAttacks.started_at, utc_now())
        self._change(id, ("queued",), status="running", started_at=started)

    def request_cancel(self, row: LaterAttacks, *, by: Actor) -> None:
        """Cancels: at once if no worker has it, otherwise `cancelling` until the worker stops. No
        change if it has ended or was asked before."""
        asked = {"cancelled_by": by.as_dict()}
        if UnitRepository(self.session).withdraw(row.unit_id):
            self.end(row.id, "cancelled", reason="cancelled-by-caller")
            self._set(row.id, **asked)
        else:
            self._change(row.id, ("queued", "running"), status="cancelling", **asked)

    def is_cancelling(self, id: str) -> bool:
        """Whether somebody has asked for its end."""
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
        found: FoundLater | None = None,
    ) -> bool:
        """Ends it, with what was found if anything was tried; False where it has ended."""
        values = {} if found is None else dict(vars(found))
        return self._change(
            id,
            OPEN_ATTACKS,
            status=status,
            status_reason=reason,
            status_detail=detail,
            finished_at=utc_now(),
            **values,
        )

    def _change(self, id: str, expected: Sequence[str], **values: Any) -> bool:
        mine = (LaterAttacks.id == id, LaterAttacks.project_id == self.project_id)
        return self._changes(
            update(LaterAttacks).where(*mine, LaterAttacks.status.in_(expected)).values(values)
        )

    def _set(self, id: str, **values: Any) -> None:
        mine = (LaterAttacks.id == id, LaterAttacks.project_id == self.project_id)
        self._execute(update(LaterAttacks).where(*mine).values(values))
