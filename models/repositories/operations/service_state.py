"""The state of the whole service, counted: few statements, none of which reads a row of a round."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Select, func, select

from models.clock import seconds_from_now
from models.repositories.base import Repository
from models.tables.experiments import Experiment
from models.tables.federations import Federation
from models.tables.lifecycle.erasures import Erasure
from models.tables.outbox import OutboxMessage
from models.tables.reservations import FederationBudget
from models.tables.sweeper_leases import SweeperLease
from models.tables.units import Unit


@dataclass(frozen=True)
class UnitCount:
    """The units of one kind in one state, and what became of them so far."""

    kind: str
    state: str
    units: int
    claims: int
    lost_leases: int


@dataclass(frozen=True)
class ServiceState:
    """Counts of everything, at one moment."""

    units: tuple[UnitCount, ...]
    oldest_waiting_seconds: Mapping[str, float]
    """By device: how long the unit that has waited longest could have run already."""
    experiments: Mapping[str, int]
    """By status."""
    rounds_recorded: int
    """Of all experiments; it never falls, because experiments are never removed."""
    outbox_messages: int
    """Not yet sent."""
    outbox_oldest_seconds: float
    erasure_oldest_seconds: float
    """How long the erasure that has waited longest is not done; 0 without any."""
    sweeper_elected: bool


class ServiceStateRepository(Repository):
    """Counts across projects. For those who run the service: no caller of a project sees them."""

    def state(self) -> ServiceState:
        """Everything but budgets."""
        now = self.session.scalar(select(seconds_from_now()))
        assert now is not None
        experiments = self.session.execute(
            select(
                Experiment.status, func.count(), func.coalesce(func.sum(Experiment.rounds_done), 0)
            ).group_by(Experiment.status)
        ).all()
        messages, oldest = self.session.execute(
            select(func.count(), func.min(OutboxMessage.created_at)).where(
                OutboxMessage.published_at.is_(None)
            )
        ).one()
        waiting = select(func.min(Erasure.requested_at)).where(Erasure.completed_at.is_(None))
        erasing = self.session.scalar(waiting)
        elected = select(SweeperLease.name).where(SweeperLease.lease_until > seconds_from_now())
        return ServiceState(
            units=tuple(self._units()),
            oldest_waiting_seconds=self._oldest_waiting(now),
            experiments={status: count for status, count, _ in experiments},
            rounds_recorded=sum(int(rounds) for _, _, rounds in experiments),
            outbox_messages=messages,
            outbox_oldest_seconds=_seconds(oldest, now),
            erasure_oldest_seconds=_seconds(erasing, now),
            sweeper_elected=self.session.scalars(elected.limit(1)).first() is not None,
        )

    def budgeted_federations(self, *, limit: int) -> list[tuple[str, str]]:
        """The newest federations on which a budget was set: (project id, federation id)."""
        rows = self.session.execute(
            select(Federation.project_id, Federation.id)
            .where(Federation.id.in_(_budgeted()))
            .order_by(Federation.id.desc())
            .limit(limit)
        )
        return [(project_id, federation_id) for project_id, federation_id in rows]

    def count_budgeted_federations(self) -> int:
        """How many federations there are on which a budget was set."""
        counted = select(func.count()).select_from(Federation).where(Federation.id.in_(_budgeted()))
        return self.session.scalar(counted) or 0

    def _units(self) -> list[UnitCount]:
        rows = self.session.execute(
            select(
                Unit.kind,
                Unit.state,
                func.count(),
                func.sum(Unit.fence),
                func.sum(Unit.lost_leases),
            ).group_by(Unit.kind, Unit.state)
        )
        return [
            UnitCount(kind, state, units, int(claims), int(lost))
            for kind, state, units, claims, lost in rows
        ]

    def _oldest_waiting(self, now: datetime) -> dict[str, float]:
        rows = self.session.execute(
            select(Unit.device, func.min(Unit.available_at))
            .where(Unit.state == "waiting", Unit.available_at <= seconds_from_now())
            .group_by(Unit.device)
        )
        return {device: _seconds(since, now) for device, since in rows}


def _budgeted() -> Select[str]:
    return select(FederationBudget.federation_id).where(FederationBudget.total.is_not(None))


def _seconds(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())
