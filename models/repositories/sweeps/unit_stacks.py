"""Units whose experiments can be trained side by side: claimed together, and taken apart.

A worker that has claimed a unit takes in others that wait, so that one lease, one fence and one
flush serve all of them. Where an attempt fails, each experiment goes on by itself: none fails
because of another.
"""

from sqlalchemy import exists, select, update
from sqlalchemy.orm import aliased

from models.clock import seconds_from_now, utc_now
from models.identifiers import new_id
from models.repositories.base import Repository
from models.repositories.experiments import ENDED
from models.repositories.units import can_run
from models.tables.experiments import Experiment
from models.tables.units import Unit

_NOT_STARTED = "queued"


class UnitStackRepository(Repository):
    """Experiments move between units; their ids, reservations and ledgers stay."""

    def take_in(self, unit_id: str, *, most: int) -> int:
        """Moves the experiments of waiting units of the same shape into this one; how many.

        The unit must be held by the caller. It then has at most as many experiments as fit
        together, and `most`. Only experiments that nobody has started are moved, or joined: they
        begin together. The units they came from are deleted.
        """
        unit = self._one(select(Unit).where(Unit.id == unit_id))
        if unit is None or unit.stack_key is None or unit.attempts > 1:
            return 0
        own = self._experiments(unit_id)
        if any(one.status != _NOT_STARTED for one in own):
            return 0
        room = min(most, unit.stack_size) - len(own)
        moved = 0
        for other in self._waiting_like(unit, limit=room):
            cells = self._experiments(other.id)
            if len(cells) > room - moved:
                break
            for cell in cells:
                self._move(cell, unit_id, len(own) + moved)
                moved += 1
            self.session.delete(other)
        self.session.flush()
        return moved

    def take_apart(self, unit_id: str, *, held: bool = False) -> list[str]:
        """Gives every experiment that has not ended, but the first, a unit of its own to wait in.

        Nobody may hold the unit but the caller (`held`), whose attempt is that of the first alone;
        one that was not to be run with others stays whole. Returns the
        ids of the new units, which the sweeper publishes. Their attempts so far are counted, and
        they are never taken in again.
        """
        unit = self._one(select(Unit).where(Unit.id == unit_id))
        open_ = [one for one in self._experiments(unit_id) if one.status not in ENDED]
        if unit is None or unit.stack_key is None or len(open_) < 2:
            return []
        self._execute(update(Unit).where(Unit.id == unit_id).values(stack_key=None))
        apart = []
        for cell in open_[1:]:
            alone = Unit(
                id=new_id(),
                project_id=unit.project_id,
                kind=unit.kind,
                state="waiting",
                device=unit.device,
                fence=0,
                attempts=unit.attempts - held,
                max_attempts=unit.max_attempts,
                available_at=seconds_from_now(),
                created_at=utc_now(),
                last_error=unit.last_error,
                traceparent=unit.traceparent,
            )
            self.session.add(alone)
            self.session.flush()
            self._move(cell, alone.id, 0)
            apart.append(alone.id)
        return apart

    def _waiting_like(self, unit: Unit, *, limit: int) -> list[Unit]:
        """Fresh units of the same shape, locked, the oldest first."""
        if limit < 1:
            return []
        begun = aliased(Experiment)
        return self._all(
            select(Unit)
            .where(
                Unit.stack_key == unit.stack_key,
                Unit.project_id == unit.project_id,
                Unit.device == unit.device,
                Unit.attempts == 0,
                can_run(),
                ~exists().where(begun.unit_id == Unit.id, begun.status != _NOT_STARTED),
            )
            .order_by(Unit.id)
            .limit(limit)
            # A unit that another worker is just claiming is that worker's.
            .with_for_update(skip_locked=True)
        )

    def _experiments(self, unit_id: str) -> list[Experiment]:
        return self._all(
            select(Experiment)
            .where(Experiment.unit_id == unit_id)
            .order_by(Experiment.unit_position)
        )

    def _move(self, experiment: Experiment, unit_id: str, position: int) -> None:
        self._execute(
            update(Experiment)
            .where(Experiment.id == experiment.id)
            .values(unit_id=unit_id, unit_position=position)
        )
