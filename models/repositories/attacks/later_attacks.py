"""Attacks on experiments whose report is signed, in their order."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, func, select, update

from models.clock import utc_now
from models.identifiers import new_id
from models.person import Actor
from models.repositories.base import ScopedRepository, table_of
from models.repositories.units import UnitRepository
from models.tables.attacks.later_attacks import LaterAttacks
from models.tables.experiments import Experiment
from models.values import FoundLater, LaterAttacksStatus

OPEN: tuple[LaterAttacksStatus, ...] = ("queued", "running", "cancelling")


def attacked_experiments() -> Select[tuple[str]]:
    """The ids of experiments with attacks that have not ended, for the condition of a query: what
    these were trained with is needed again."""
    columns = table_of(LaterAttacks).c
    return select(columns.experiment_id).where(columns.status.in_(OPEN))


class LaterAttacksRepository(ScopedRepository):
    """A project's requests; whoever writes for a worker holds its unit."""

    def next_number(self, experiment_id: str) -> int:
        """The number of the request to come; others wait until this transaction ends."""
        mine = select(Experiment.id).where(Experiment.id == experiment_id)
        self.session.execute(mine.with_for_update())
        columns = table_of(LaterAttacks).c
        newest = self.session.scalar(
            select(func.max(columns.number)).where(columns.experiment_id == experiment_id)
        )
        return (newest or 0) + 1

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
        row = LaterAttacks(
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
        self.session.add(row)
        self.session.flush()
        return row

    def get(self, id: str) -> LaterAttacks | None:  # noqa: A002
        """One request as it is now; None where the project has no such one."""
        return self._one(self._select(LaterAttacks).where(LaterAttacks.id == id))

    def of_unit(self, unit_id: str) -> LaterAttacks | None:
        """What a unit is to carry out; None where it has ended."""
        mine = (LaterAttacks.unit_id == unit_id, LaterAttacks.status.in_(OPEN))
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

    def start(self, id: str) -> None:  # noqa: A002
        """queued -> running; when it was first started stays."""
        started = func.coalesce(LaterAttacks.started_at, utc_now())
        self._change(id, ("queued",), status="running", started_at=started)

    def request_cancel(self, row: LaterAttacks, *, by: Actor) -> None:
        """Asks for an end: at once where no worker has it, else `cancelling` until one stops.

        One that has ended, or was asked before, is left as it is.
        """
        asked = {"cancelled_by": by.as_dict()}
        if UnitRepository(self.session).withdraw(row.unit_id):
            self.end(row.id, "cancelled", reason="cancelled-by-caller")
            self._set(row.id, **asked)
        else:
            self._change(row.id, ("queued", "running"), status="cancelling", **asked)

    def is_cancelling(self, id: str) -> bool:  # noqa: A002
        """Whether somebody has asked for its end."""
        columns = table_of(LaterAttacks).c
        status = self.session.scalar(select(columns.status).where(columns.id == id))
        return bool(status == "cancelling")

    def end(
        self,
        id: str,  # noqa: A002
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
            OPEN,
            status=status,
            status_reason=reason,
            status_detail=detail,
            finished_at=utc_now(),
            **values,
        )

    def _change(self, id: str, expected: Sequence[str], **values: Any) -> bool:  # noqa: A002
        mine = (LaterAttacks.id == id, LaterAttacks.project_id == self.project_id)
        return bool(
            self._execute(
                update(LaterAttacks).where(*mine, LaterAttacks.status.in_(expected)).values(values)
            )
        )

    def _set(self, id: str, **values: Any) -> None:  # noqa: A002
        mine = (LaterAttacks.id == id, LaterAttacks.project_id == self.project_id)
        self._execute(update(LaterAttacks).where(*mine).values(values))
