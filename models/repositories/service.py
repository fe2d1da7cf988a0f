"""What the service keeps of itself: elections, lost units, and counts of everything."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from models.clock import seconds_from_now
from models.repositories.audits import AuditRepository, LaterAttacksRepository
from models.repositories.base import Repository
from models.repositories.federations import FederationRepository
from models.tables.accounts import SweeperLease
from models.tables.experiments import Experiment, Unit
from models.tables.federations import Erasure
from models.values import ENDED, OPEN

_AHEAD_LEASES = 10


class SweeperLeaseRepository(Repository):
    """Named duties, each with one holder at a time."""

    def acquire(self, name: str, *, holder: str, lease_seconds: float) -> bool:
        """Takes or extends the duty; False while another holds it. A lease that ends far later than
        this one would was written before the database's clock was set back, and holds nothing."""
        until = seconds_from_now(lease_seconds)
        row = {"name": name, "holder": holder}
        if self._insert_absent(SweeperLease, row, lease_until=until):
            return True
        free = or_(
            SweeperLease.holder == holder,
            SweeperLease.lease_until <= seconds_from_now(),
            SweeperLease.lease_until > seconds_from_now(_AHEAD_LEASES * lease_seconds),
        )
        mine = (SweeperLease.name == name, free)
        return self._set(SweeperLease, *mine, holder=holder, lease_until=until)

    def release(self, name: str, *, holder: str) -> bool:
        """Gives the duty up, so that another need not wait for the lease to end."""
        mine = (SweeperLease.name == name, SweeperLease.holder == holder)
        return bool(self._delete(SweeperLease, *mine))


def fail_task(
    session: Session, unit_id: str, project_id: str, *, reason: str, detail: str, shown: str
) -> None:
    """Ends the profile, audit or attacks that a failed unit was to make; experiments go on.
    `detail`: why; `shown`: the same for those who may not know more of the data."""
    federations = FederationRepository(session, project_id)
    if (federation := federations.of_unit(unit_id)) is not None:
        fault = {"pointer": "", "message": f"{shown}; upload or register it again"}
        federations.set_rejected(federation.id, [fault], unit_id=unit_id)
    audits = AuditRepository(session, project_id)
    if (audit := audits.of_unit(unit_id)) is not None:
        audits.fail(audit.id, reason, [{"pointer": "", "message": f"{shown}; ask for it again"}])
    later = LaterAttacksRepository(session, project_id)
    if (attacks := later.of_unit(unit_id)) is not None:
        later.end(attacks.id, "failed", reason=reason, detail=detail)


Samples = list[tuple[dict[str, str], float]]
"""The values of one figure, each with its labels."""


class ServiceStateRepository(Repository):
    """Figures across projects. For those who run the service: no caller of a project sees them."""

    def figures(self) -> dict[str, Samples]:
        """Every figure at this moment, by its name."""
        now = self.session.scalar(select(seconds_from_now()))
        assert now is not None
        sums = (func.count(), func.sum(Unit.fence), func.sum(Unit.lost_leases))
        grouped = select(Unit.kind, Unit.state, *sums).group_by(Unit.kind, Unit.state)
        units = self.session.execute(grouped).all()
        claims, lost = (dict.fromkeys(("profile", "run"), 0) for _ in range(2))
        for kind, _, _, claimed, taken in units:
            claims[kind] = claims.get(kind, 0) + int(claimed)
            lost[kind] = lost.get(kind, 0) + int(taken)
        rounds = func.coalesce(func.sum(Experiment.rounds_done), 0)
        counted = select(Experiment.status, func.count(), rounds).group_by(Experiment.status)
        experiments = self.session.execute(counted).all()
        statuses = dict.fromkeys((*OPEN, *ENDED), 0) | {one[0]: one[1] for one in experiments}
        unsent = select(func.count(), func.min(Unit.available_at))
        unsent = unsent.where(Unit.state == "waiting", Unit.published_at.is_(None))
        messages, oldest = self.session.execute(unsent).one()
        due = (Unit.state == "waiting", Unit.available_at <= seconds_from_now())
        waiting = select(Unit.device, func.min(Unit.available_at)).where(*due)
        since = dict.fromkeys(("auto", "cpu", "cuda")) | dict(
            self.session.execute(waiting.group_by(Unit.device)).all()
        )
        erasing = select(func.min(Erasure.requested_at)).where(Erasure.completed_at.is_(None))
        elected = self._exists(SweeperLease.lease_until > seconds_from_now())
        return {
            "units": [({"kind": one[0], "state": one[1]}, one[2]) for one in units],
            "unit_oldest_waiting_seconds": _by(
                "device", {device: _seconds(begun, now) for device, begun in since.items()}
            ),
            "unit_claims": _by("kind", claims),
            "unit_lost_leases": _by("kind", lost),
            "experiments": _by("status", statuses),
            "rounds_recorded": [({}, sum(int(one[2]) for one in experiments))],
            "outbox_messages": [({}, messages)],
            "outbox_oldest_seconds": [({}, _seconds(oldest, now))],
            "erasure_oldest_seconds": [({}, _seconds(self.session.scalar(erasing), now))],
            "sweeper_elected": [({}, elected)],
        }


def _by(label: str, values: Mapping[str, float]) -> Samples:
    return [({label: name}, value) for name, value in values.items()]


def _seconds(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())
