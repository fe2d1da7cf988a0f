"""How a worker watches over attacks: its lease, requests to stop or cancel, and lost workers."""

from collections.abc import Callable
from time import monotonic

import structlog
from sqlalchemy.orm import Session

from fedaudit.attacks.carried_out import AttackWatch
from fedaudit.reports.sections.attacks import AttackSection
from fedaudit.spec.attacks.attack_spec import AttackSpec
from models.repositories import EventRepository
from workers.claim import FencedWriter, Lease
from workers.context import WorkerContext

log = structlog.get_logger()

STARTED, STOPPED, COMPLETED = "attack.started", "attack.stopped", "attack.completed"
_LOST_WORKERS = 2
"""An attack that was running when so many workers were lost is not tried again."""
_LOOK_SECONDS = 1.0
"""How often it is asked whether somebody wants the experiment's end."""


class AttacksStoppedError(Exception):
    """A signal asked this worker to stop."""


class AttacksCancelledError(Exception):
    """Somebody asked for the experiment's end."""


class LeasedAttacks(AttackWatch):
    """Renews the lease while attacks go on, and keeps in the experiment's events how they went.

    Raises LeaseLostError, AttacksStoppedError and AttacksCancelledError.
    """

    def __init__(
        self,
        context: WorkerContext,
        lease: Lease,
        writer: FencedWriter,
        *,
        experiment_id: str,
        project_id: str,
        is_cancelled: Callable[[Session], bool],
        later: int | None = None,
    ) -> None:
        """`is_cancelled`: whether somebody has asked for their end. `later`: the number of the
        request, of attacks on an experiment that has ended."""
        self._context = context
        self._lease = lease
        self._writer = writer
        self._owner = (experiment_id, project_id)
        self._is_cancelled = is_cancelled
        self._later = {} if later is None else {"later": later}
        self._kind = ""
        self._next_look = 0.0
        self._begun = False

    def begin(self, position: int, spec: AttackSpec) -> str | None:
        self._kind, self._begun = spec.kind, False
        lost = self._lost(position)
        if lost >= _LOST_WORKERS or (lost and self._lease.is_last_attempt):
            log.warning("attack given up", position=position, lost_workers=lost)
            return f"{lost} workers that carried it out were lost, so it was not tried again"
        self._tell(STARTED, position)
        self._begun = True
        return None

    def progressed(self, position: int, done: float) -> None:
        self._lease.progressed()
        if self._context.stopping():
            self._tell(STOPPED, position)
        self.look()

    def look(self) -> None:
        """Raises where this worker has to stop, or somebody wants the end."""
        self._lease.progressed()
        if self._context.stopping():
            raise AttacksStoppedError
        if monotonic() >= self._next_look:
            self._next_look = monotonic() + _LOOK_SECONDS
            if self._writer.write(self._is_cancelled):
                raise AttacksCancelledError

    def end(self, position: int, section: AttackSection) -> None:
        if self._begun:
            self._tell(COMPLETED, position, status=section.status)

    def _lost(self, position: int) -> int:
        """How often the attack was begun by a worker that said no more of it."""
        with self._context.database.read() as session:
            types = self._told(session, position)
        return 2 * types.count(STARTED) - len(types)

    def _told(self, session: Session, position: int) -> list[str]:
        events = EventRepository(session).of_type(self._owner[0], STARTED, STOPPED, COMPLETED)
        later = self._later.get("later")
        return [
            one.type
            for one in events
            if (one.data["position"], one.data.get("later")) == (position, later)
        ]

    def _tell(self, type_: str, position: int, **more: str) -> None:
        told = {**self._later, "position": position, "kind": self._kind, **more}

        def tell(session: Session) -> None:
            if self._writer.again and self._told(session, position)[-1:] == [type_]:
                return
            EventRepository(session).append(*self._owner, [(type_, told)])

        self._writer.write(tell)
