"""How a worker watches attacks: its lease, requests to stop or cancel, lost workers, and canaries
beside a run that end it when its noise proves too small."""

from collections.abc import Callable, Sequence
from time import monotonic

import structlog
from sqlalchemy.orm import Session

from fedaudit.attacks.canaries.canary_attack import audit_beside
from fedaudit.attacks.carried_out import AttackWatch
from fedaudit.reports.sections.attacks import AttackSection
from fedaudit.runs.run import Run
from fedaudit.spec.attacks.attack_spec import AttackSpec
from fedaudit.training.base.rounds import Trainer
from models.repositories import EventRepository
from workers.claim import FencedWriter, Lease
from workers.context import WorkerContext

log = structlog.get_logger()

STARTED, STOPPED, COMPLETED = "attack.started", "attack.stopped", "attack.completed"
_LOST_WORKERS = 2
"""An attack during which so many workers were lost is not tried again."""
_LOOK_SECONDS = 1.0
"""Between two queries for a request to cancel."""


class AttacksStoppedError(Exception):
    """A signal asked this worker to stop."""


class AttacksCancelledError(Exception):
    """A caller asked for the experiment's end."""


class LeasedAttacks(AttackWatch):
    """Renews the lease during attacks, and records their progress in the experiment's events.
    Raises LeaseLostError, AttacksStoppedError and AttacksCancelledError."""

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
        """`is_cancelled`: whether a caller has asked for their end. `later`: the number of the
        request, of attacks on an experiment that has ended."""
        self._context, self._lease, self._writer = context, lease, writer
        self._owner = (experiment_id, project_id)
        self._is_cancelled = is_cancelled
        self._later = {} if later is None else {"later": later}
        self._kind, self._next_look, self._begun = "", 0.0, False

    def begin(self, position: int, spec: AttackSpec) -> str | None:
        self._kind, self._begun = spec.kind, False
        with self._context.database.read() as session:
            types = self._recorded(session, position)
        # How often it was begun by a worker that recorded nothing more of it.
        lost = 2 * types.count(STARTED) - len(types)
        if lost >= _LOST_WORKERS or (lost and self._lease.is_last_attempt):
            log.warning("attack given up", position=position, lost_workers=lost)
            return f"{lost} workers that carried it out were lost, so it was not tried again"
        self._record(STARTED, position)
        self._begun = True
        return None

    def progressed(self, position: int, done: float) -> None:
        self._lease.progressed()
        if self._context.stopping():
            self._record(STOPPED, position)
        self.look()

    def look(self) -> None:
        """Raises if this worker has to stop, or a caller has asked for the end."""
        self._lease.progressed()
        if self._context.stopping():
            raise AttacksStoppedError
        if monotonic() >= self._next_look:
            self._next_look = monotonic() + _LOOK_SECONDS
            if self._writer.write(self._is_cancelled):
                raise AttacksCancelledError

    def end(self, position: int, section: AttackSection) -> None:
        if self._begun:
            self._record(COMPLETED, position, status=section.status)

    def _recorded(self, session: Session, position: int) -> list[str]:
        events = EventRepository(session).of_type(self._owner[0], STARTED, STOPPED, COMPLETED)
        own = position, self._later.get("later")
        return [one.type for one in events if (one.data["position"], one.data.get("later")) == own]

    def _record(self, type_: str, position: int, **more: str) -> None:
        data = {**self._later, "position": position, "kind": self._kind, **more}

        def record(session: Session) -> None:
            if self._writer.again and self._recorded(session, position)[-1:] == [type_]:
                return
            EventRepository(session).append(*self._owner, [(type_, data)])

        self._writer.write(record)


class FollowedRuns:
    """The canaries beside those runs of a stack whose specs ask for them."""

    def __init__(
        self, runs: Sequence[Run], stack: Trainer, *, context: WorkerContext, lease: Lease
    ) -> None:
        """`runs` by their positions in the stack."""
        self._runs, self._stack, self._context, self._lease = runs, stack, context, lease
        found = {run.experiment_id: audit_beside(run.cell, device=context.device) for run in runs}
        self.audits = {id_: audit for id_, audit in found.items() if audit is not None}
        """By experiment."""

    def follow(self, rounds: int) -> None:
        """Trains the canaries as far as the next rounds go, and ends the runs that they stop. A run
        that is resumed is followed by canaries from its first round on; with simulated noise they
        are the same again. Raises AttacksStoppedError if this worker has to stop."""
        for position in self._stack.active if self.audits else ():
            run = self._runs[position]
            audit = self.audits.get(run.experiment_id)
            if audit is None:
                continue
            audit.play(run.rounds_done + rounds, progress=self._look)
            if audit.crossed is not None:
                self._stack.end_after(position, audit.crossed)

    def _look(self, _done: float) -> None:
        self._lease.progressed()
        if self._context.stopping():
            raise AttacksStoppedError
