"""Whose unit a worker runs next. A message only wakes it: in the order of messages a sweep of one
project would keep every other project waiting until its last cell."""

from collections.abc import Collection
from itertools import count

from models.database import Database
from models.repositories import UnitRepository
from models.values import WaitingUnit
from workers.context import WorkerContext
from workers.run_unit import run_unit

_TRIES = 5
"""Another worker may choose the same unit at the same time, and claim it first."""
_SHORT = ("profile", "audit")
"""Kinds of units that take seconds rather than hours."""


class Turns:
    """Projects take turns: the one with the fewest running units first, then the one that this
    worker has served longest ago. Profiles and audits, which take seconds, come before the rest."""

    def __init__(self, database: Database, devices: Collection[str]) -> None:
        self._database = database
        self._devices = devices
        self._numbers = count()
        self._served: dict[str, int] = {}
        """Number of each project's last turn, keyed by project."""

    def choose(self) -> str | None:
        """The id of the unit whose turn it is; None where no unit of these devices waits."""
        with self._database.read() as session:
            waiting = UnitRepository(session).oldest_waiting(self._devices)
        if not waiting:
            return None
        chosen = min(waiting, key=self._place)
        # A project without waiting units has the first turn when it is back.
        projects = {one.project_id for one in waiting}
        self._served = {name: last for name, last in self._served.items() if name in projects}
        self._served[chosen.project_id] = next(self._numbers)
        return chosen.unit_id

    def _place(self, unit: WaitingUnit) -> tuple[bool, int, int, str]:
        last = self._served.get(unit.project_id, -1)
        return unit.kind not in _SHORT, unit.running, last, unit.unit_id


def run_next(context: WorkerContext, turns: Turns, woken_for: str) -> None:
    """Run the unit whose turn it is, whichever the worker was woken for; without one that waits,
    that unit, whose worker may have been lost."""
    for _ in range(_TRIES):
        chosen = turns.choose()
        if chosen is None:
            break
        if run_unit(context, chosen):
            return
    run_unit(context, woken_for)
