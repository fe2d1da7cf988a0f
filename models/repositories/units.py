"""Units of work: who runs what, decided by the database alone.

A worker claims a unit for a time and gets a fence number. The number rises with every claim, and
everything written for the unit begins with `hold`, which fails for an older number: a worker that
lost its lease, however late it wakes, writes nothing.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.orm import aliased

from models.clock import seconds_from_now
from models.repositories.base import Repository, table_of
from models.tables.experiments import Experiment, Unit
from models.values import ENDED, UnitKind, WaitingUnit, new_id, utc_now

_AHEAD_SECONDS = 300.0
"""A time so far ahead was written before the database's clock was set back."""
MAX_LEASE_SECONDS = 3600.0
"""The longest lease that settings allow."""
_WAITS = Unit.state == "waiting"
_FENCED = (Unit.id == bindparam("unit"), Unit.fence == bindparam("held"), Unit.state == "leased")
_HOLD = update(Unit).where(*_FENCED).values(worker=Unit.worker)
_NOW = {"available_at": seconds_from_now(), "published_at": seconds_from_now()}
_WAITING = table_of(Unit).insert().values(_NOW)


class UnitRepository(Repository):
    """Units across projects: workers and the sweeper serve all of them."""

    def create(
        self,
        project_id: str,
        device: str,
        *,
        kind: UnitKind = "run",
        max_attempts: int = 3,
        stack_key: str | None = None,
        stack_size: int = 1,
    ) -> Unit:
        """A unit waiting for `auto`, `cpu` or `cuda`, which the caller publishes once it is
        committed, or marks as not published; read it again for the database's times. Units of one
        `stack_key` can be run together, at most `stack_size` experiments of them."""
        values: dict[str, Any] = {
            "id": new_id(),
            "project_id": project_id,
            "kind": kind,
            "state": "waiting",
            "device": device,
            "fence": 0,
            "attempts": 0,
            "max_attempts": max_attempts,
            "created_at": utc_now(),
            "stack_key": stack_key,
            "stack_size": stack_size,
        }
        self._write(_WAITING, [values])
        return Unit(**values)

    def get(self, unit_id: str) -> Unit | None:
        """The unit as it is now."""
        return self._one(select(Unit).where(Unit.id == unit_id))

    def claim(
        self, unit_id: str, *, worker: str, devices: Collection[str], lease_seconds: float
    ) -> Unit | None:
        """Claims a unit that waits or whose lease has expired; None if it cannot be had. Its fence
        goes with everything that the worker writes. `devices`: what this worker serves, such as
        {"auto", "cpu"}. Each claim counts as an attempt."""
        free = or_(_WAITS, _lease_ran_out())
        mine = (Unit.id == unit_id, Unit.device.in_(devices), Unit.attempts < Unit.max_attempts)
        leased = update(Unit).values(
            state="leased",
            fence=Unit.fence + 1,
            attempts=Unit.attempts + 1,
            # A worker may find a lease that ran out before the sweeper does.
            lost_leases=Unit.lost_leases + _lost(),
            worker=worker,
            lease_until=seconds_from_now(lease_seconds),
        )
        claimed: Unit | None = self._returned(leased.where(*mine, free), Unit).scalar_one_or_none()
        return claimed

    def oldest_waiting(self, devices: Collection[str]) -> list[WaitingUnit]:
        """The oldest unit of each project and kind that can run on these devices, and how many
        units of the project run."""
        free = and_(_WAITS, Unit.device.in_(devices), Unit.attempts < Unit.max_attempts)
        oldest = (
            select(Unit.project_id, Unit.kind, func.min(Unit.id))
            .where(free)
            .group_by(Unit.project_id, Unit.kind)
        )
        leased = (
            select(Unit.project_id, func.count())
            .where(Unit.state == "leased")
            .group_by(Unit.project_id)
        )
        running = {row[0]: row[1] for row in self.session.execute(leased)}
        return [
            WaitingUnit(unit_id, project_id, kind, running.get(project_id, 0))
            for project_id, kind, unit_id in self.session.execute(oldest)
        ]

    def renew(self, unit_id: str, fence: int, lease_seconds: float) -> bool:
        """Extends the lease; False where it was lost, and the worker must stop."""
        return self._fenced(unit_id, fence, lease_until=seconds_from_now(lease_seconds))

    def hold(self, unit_id: str, fence: int) -> bool:
        """Locks the unit until the transaction ends; every write for it begins here. False if the
        lease was lost, and the caller must roll back; an expired lease that no one else has taken
        is still held."""
        return self._ran(_HOLD, unit=unit_id, held=fence) > 0

    def release(self, unit_id: str, fence: int, *, count_attempt: bool) -> bool:
        """Gives the unit back to wait. A worker that was asked to stop counts no attempt; after one
        that failed the unit counts as published just now, so that the next follows after a
        pause."""
        paused: dict[str, Any] = {"published_at": seconds_from_now()}
        back = paused if count_attempt else {"attempts": Unit.attempts - 1}
        return self._wait(unit_id, fence, **back)

    def finish(self, unit_id: str, fence: int, state: str, *, error: str | None = None) -> bool:
        """Ends the unit as `done`, `failed` or `cancelled`; False where the lease was lost."""
        return self._fenced(unit_id, fence, state=state, lease_until=None, last_error=error)

    def withdraw(self, unit_id: str) -> bool:
        """Cancels a unit that no worker has; False where one has it, or it has ended."""
        return self._set(Unit, Unit.id == unit_id, Unit.state == "waiting", state="cancelled")

    def mark_published(self, unit_ids: Sequence[str], *, published: bool = True) -> None:
        """Notes that these units were published to the queue just now, or were not; nothing of one
        that another transaction holds: it need not be published again."""
        marked = _FREED.values(published_at=seconds_from_now() if published else None)
        self.session.connection().execute(marked, {"ids": list(unit_ids)})

    def hold_waiting(self, unit_ids: Collection[str]) -> list[str]:
        """Hold those units that wait: no worker claims them before the transaction ends."""
        waits = and_(Unit.id.in_(unit_ids), Unit.state == "waiting")
        these = select(Unit.id).where(waits).order_by(Unit.id).with_for_update()
        return list(self.session.scalars(these))

    def withdraw_emptied(self, unit_ids: Collection[str]) -> None:
        """Cancels those of these waiting units whose experiments have all ended."""
        goes_on = exists().where(Experiment.unit_id == Unit.id, Experiment.status.not_in(ENDED))
        these = (Unit.id.in_(unit_ids), Unit.state == "waiting", ~goes_on)
        self._set(Unit, *these, state="cancelled")

    def stale_waiting(self, older_than_seconds: float, limit: int = 100) -> list[Unit]:
        """Units that could run, that were not published to the queue at all, or not for so long,
        in this order; locked too."""
        published = Unit.published_at
        long_ago = published <= seconds_from_now(-older_than_seconds)
        ahead = published > seconds_from_now(_AHEAD_SECONDS)
        stale = _locked(and_(_WAITS, or_(published.is_(None), long_ago, ahead)), limit)
        return self._all(stale.order_by(None).order_by(published.asc().nulls_first(), Unit.id))

    def reclaimable(
        self,
        limit: int = 100,
        *,
        excluded: Collection[str] = (),
        longest_lease: float = MAX_LEASE_SECONDS,
    ) -> list[Unit]:
        """Units that `take_back` would take now, not locked. `excluded`: ids to leave out."""
        lost = and_(_is_lost(longest_lease), Unit.id.not_in(excluded))
        return self._all(select(Unit).where(lost).order_by(Unit.id).limit(limit))

    def take_back(self, unit_id: str, *, longest_lease: float = MAX_LEASE_SECONDS) -> Unit | None:
        """Takes the unit from its lost worker; None where it has its worker. With attempts left it
        waits again; otherwise it fails, and the caller ends what it was to do."""
        unit = self._one(_locked(and_(_is_lost(longest_lease), Unit.id == unit_id), 1))
        if unit is None:
            return None
        counted: dict[str, Any] = {"lost_leases": Unit.lost_leases + _lost()}
        if unit.attempts < unit.max_attempts:
            reason = f"the lease of worker {unit.worker} ran out in attempt {unit.attempts}"
            self._wait(unit.id, unit.fence, last_error=reason, **counted)
        else:
            reason = f"worker lost in each of {unit.attempts} attempts"
            ended = {"state": "failed", "worker": None, "lease_until": None, "last_error": reason}
            # Waiting or leased: the row is locked, so its fence alone identifies what was read.
            self._set(Unit, Unit.id == unit.id, Unit.fence == unit.fence, **ended, **counted)
        return self.get(unit.id)

    def _wait(self, unit_id: str, fence: int, **values: Any) -> bool:
        waiting = {"state": "waiting", "available_at": seconds_from_now()}
        unheld = dict.fromkeys(("worker", "lease_until", "published_at"))
        return self._fenced(unit_id, fence, **{**waiting, **unheld, **values})

    def _fenced(self, unit_id: str, fence: int, **values: Any) -> bool:
        held = (Unit.id == unit_id, Unit.fence == fence, Unit.state == "leased")
        return self._set(Unit, *held, **values)


def _lease_ran_out(longest: float = MAX_LEASE_SECONDS) -> ColumnElement[bool]:
    """Also one that ends later than the `longest` lease can: it was written before the database's
    clock was set back, and whether its worker is alive is unknown. One that is alive finds its
    fence taken, and writes nothing."""
    ended = Unit.lease_until <= seconds_from_now()
    ahead = Unit.lease_until > seconds_from_now(longest)
    return and_(Unit.state == "leased", or_(ended, ahead))


def _lost() -> ColumnElement[int]:
    """1 where the unit is taken from a worker, 0 where it waits."""
    return case((Unit.state == "leased", 1), else_=0)


def _is_lost(longest_lease: float) -> ColumnElement[bool]:
    """No worker has the unit, and it does not wait for another attempt."""
    exhausted = and_(Unit.state == "waiting", Unit.attempts >= Unit.max_attempts)
    return or_(_lease_ran_out(longest_lease), exhausted)


def _locked(condition: ColumnElement[bool], limit: int | None) -> Select[Unit]:
    # SKIP LOCKED: a unit that a worker is just writing for is alive, and one that it is just
    # claiming is that worker's.
    these = select(Unit).where(condition).order_by(Unit.id).limit(limit)
    return these.with_for_update(skip_locked=True)


_FREE = _locked(Unit.id.in_(bindparam("ids", expanding=True)), None).with_only_columns(Unit.id)
_FREED = table_of(Unit).update().where(Unit.id.in_(_FREE))


_NOT_STARTED = "queued"


class UnitStackRepository(Repository):
    """Experiments move between units; their ids, reservations and ledgers stay."""

    def take_in(self, unit_id: str, *, most: int) -> int:
        """Moves experiments of waiting units of the same shape into this held unit, up to its stack
        size and `most`; returns how many. Only unstarted experiments, since they begin together.
        Emptied units are deleted."""
        unit = self._one(select(Unit).where(Unit.id == unit_id))
        if unit is None or unit.stack_key is None or unit.attempts > 1:
            return 0
        own = self._experiments(unit_id)
        if any(one.status != _NOT_STARTED for one in own):
            return 0
        room, moved = min(most, unit.stack_size) - len(own), list[Experiment]()
        others, emptied = self._waiting_like(unit, limit=room), list[str]()
        waiting = self._experiments(*(one.id for one in others))
        for other in others:
            cells = [one for one in waiting if one.unit_id == other.id]
            if len(moved) + len(cells) > room:
                break
            moved += cells
            emptied.append(other.id)
        self._move(moved, unit_id, first=len(own))
        self._delete(Unit, Unit.id.in_(emptied))
        return len(moved)

    def take_apart(self, unit_id: str, *, held: bool = False) -> list[str]:
        """Gives every open experiment but the first a unit to itself; returns these units, which
        the sweeper publishes. Only the caller may hold the unit (`held`). The new units keep the
        attempts so far, and are never stacked again."""
        unit = self._one(select(Unit).where(Unit.id == unit_id))
        open_ = [one for one in self._experiments(unit_id) if one.status not in ENDED]
        if unit is None or unit.stack_key is None or len(open_) < 2:
            return []
        self._set(Unit, Unit.id == unit_id, stack_key=None)
        apart = []
        for cell in open_[1:]:
            alone = UnitRepository(self.session).create(
                unit.project_id, unit.device, kind=unit.kind, max_attempts=unit.max_attempts
            )
            so_far = {"attempts": unit.attempts - held, "last_error": unit.last_error}
            self._set(Unit, Unit.id == alone.id, published_at=None, **so_far)
            self._move([cell], alone.id)
            apart.append(alone.id)
        return apart

    def _waiting_like(self, unit: Unit, *, limit: int) -> list[Unit]:
        """Fresh units of the same shape, locked, the oldest first."""
        if limit < 1:
            return []
        begun = aliased(Experiment)
        alike = ("stack_key", "project_id", "device")
        same = (getattr(Unit, name) == getattr(unit, name) for name in alike)
        fresh = ~exists().where(begun.unit_id == Unit.id, begun.status != _NOT_STARTED)
        return self._all(_locked(and_(*same, Unit.attempts == 0, _WAITS, fresh), limit))

    def _experiments(self, *unit_ids: str) -> list[Experiment]:
        mine = select(Experiment).where(Experiment.unit_id.in_(unit_ids))
        return self._all(mine.order_by(Experiment.unit_position))

    def _move(self, cells: Sequence[Experiment], unit_id: str, *, first: int = 0) -> None:
        places = {one.id: place for place, one in enumerate(cells, start=first)}
        if places:
            place = {"unit_id": unit_id, "unit_position": case(places, value=Experiment.id)}
            self._set(Experiment, Experiment.id.in_(places), **place)
