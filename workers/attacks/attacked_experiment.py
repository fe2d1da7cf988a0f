"""A finished experiment as attacks need it: repeated, or from what is stored of it; and how a
worker watches attacks: its lease, requests to stop or cancel, and lost workers."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from math import nan
from time import monotonic
from typing import Any

import numpy as np
import structlog
from sqlalchemy.orm import Session

from fedaudit.arrays import Floats32
from fedaudit.attacks.attack import AttackedRun
from fedaudit.attacks.carried_out import AttackWatch
from fedaudit.attacks.played_runs import NotRepeatedError, repeat_run
from fedaudit.ledger.encoding import ledger_hash
from fedaudit.networks.parameter_files import ParameterFileError, decode_tensors, hypotheses_of
from fedaudit.privacy.lower_bounds.e_values import e_values_of
from fedaudit.reports.report import Basis
from fedaudit.reports.sections.attacks import AttackSection
from fedaudit.reports.sections.utility import known_ending
from fedaudit.runs.held_out_groups import is_remembered
from fedaudit.runs.run import Run, cell_ledger_context, new_run, training_subjects
from fedaudit.spec.attacks import AttackSpec
from fedaudit.training.base.cell import Cell, draws_in_secret
from fedaudit.training.base.rounds import FinalResult
from infrastructure.signing_keys import ROUNDING
from infrastructure.storage import file_key
from models.repositories import EventRepository, LedgerRepository
from models.tables.experiments import Experiment
from workers.claim import FencedWriter, Lease, go_on
from workers.context import WorkerContext
from workers.flush import stored_ledger


class NothingToAttackError(Exception):
    """The run cannot be restored; why, as a word and as a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class AttackedExperiment:
    """A stored experiment with its report, and the attacks on it in its cell's spec."""

    context: WorkerContext
    row: Experiment
    report: dict[str, Any]
    cell: Cell
    later: Sequence[Mapping[str, Any]] = ()
    """Sections of the attacks on it since its report."""

    @cached_property
    def basis(self) -> Basis:
        """What can be attacked: a run whose noise cannot be drawn again is attacked as stored."""
        if not draws_in_secret(self.cell):
            return "repeated"
        if any(attack.needs_hypotheses for attack in self.cell.spec.attacks):
            return "stored-model"
        return "companions"

    def attacked(self, progressed: Callable[[], None]) -> AttackedRun:
        """The finished run, with the evidence of every attack before. `progressed` may raise.
        Raises NothingToAttackError."""
        before = tuple(e_values_of([*(self.report.get("attacks") or []), *self.later]))
        if self.basis == "repeated":
            return replace(self._repeated(progressed), before=before)
        run, utility = self._stored_run(), self.report["utility"]
        # What attacks use of the result of a run: its hypotheses, and how it ended.
        result = FinalResult(
            stopped_by=known_ending(utility["stopped_by"]) or "rounds",
            rounds=utility["rounds"],
            best_round=utility["best_round"],
            hypotheses=self._hypotheses()
            if self.basis == "stored-model"
            else np.zeros((0, 0), "f4"),
            selection_loss=nan,
            validation_loss=nan,
            accuracy=None,
            fairness={},
            single_row_clients=0,
            collapsed_rounds=0,
        )
        return AttackedRun(run, result, self.context.device, before=before)

    def _repeated(self, progressed: Callable[[], None]) -> AttackedRun:
        run = new_run(self.cell, experiment_id=self.row.id, started_at=datetime.now(UTC))
        self._as_published(run)
        try:
            device = self.context.device
            return repeat_run(run, self.report, device=device, progressed=progressed)
        except NotRepeatedError as error:
            by = self.report["provenance"].get("backend")
            raise NothingToAttackError(
                "not-repeated",
                f"the run could not be repeated exactly: {error}. Figures agree to the last bit "
                f"on one backend alone; the run was trained on {by}",
            ) from None

    def _stored_run(self) -> Run:
        ledger_context = cell_ledger_context(self.cell)
        with self.context.database.read() as session:
            digests = LedgerRepository(session).digests(self.row.id)
            if ledger_hash(digests) != self.report["integrity"]["ledger_hash"]:
                raise NothingToAttackError(
                    "ledger-altered", "the stored ledger is not the one that the report names"
                )
            ledger = stored_ledger(
                session,
                self.row,
                ledger_context=ledger_context,
                training=training_subjects(self.cell, ledger_context),
            )
        started = self.row.started_at or self.row.created_at
        run = Run(self.row.id, self.row.name, self.cell, ledger, started)
        run.rounds_done = self.report["utility"]["rounds"]
        self._as_published(run)
        return run

    def _as_published(self, run: Run) -> None:
        """Withholds the groups that the report withheld, and rounds counts as it did."""
        if is_remembered(self.cell):
            withheld = self.row.withheld_attributes
            # Null of a run before it was decided: then no group is disclosed.
            run.withheld = frozenset(self.row.attributes if withheld is None else withheld)
        run.rounding_key = self.context.signing_key.derived_secret(ROUNDING)

    def _hypotheses(self) -> Floats32:
        key = file_key("model", self.row.project_id, self.row.id)
        if not self.context.storage.holds(key):
            raise NothingToAttackError(
                "no-model",
                "its noise cannot be drawn again, and its trained hypotheses are not stored",
            )
        with self.context.storage.local(key) as path:
            data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != (self.report.get("model") or {}).get("sha256"):
            raise NothingToAttackError(
                "no-model", "the stored hypotheses are not those that the report names"
            )
        spec, shape = self.cell.spec, self.cell.shape
        try:
            return hypotheses_of(decode_tensors(data), shape, hypotheses=spec.training.hypotheses)
        except ParameterFileError as error:
            raise NothingToAttackError("no-model", f"the stored model {error}") from None


log = structlog.get_logger()

STARTED, STOPPED, COMPLETED = "attack.started", "attack.stopped", "attack.completed"
_LOST_WORKERS = 2
"""An attack during which so many workers were lost is not tried again."""
_LOOK_SECONDS = 1.0
"""Between two queries for a request to cancel."""


class AttacksCancelledError(Exception):
    """A caller asked for the experiment's end."""


class LeasedAttacks(AttackWatch):
    """Renews the lease during attacks, and records their progress in the experiment's events.
    Raises LeaseLostError, StopAskedError and AttacksCancelledError."""

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
        self._experiment_id, self._project_id = experiment_id, project_id
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
        go_on(self._context, self._lease)
        if monotonic() >= self._next_look:
            self._next_look = monotonic() + _LOOK_SECONDS
            if self._writer.write(self._is_cancelled):
                raise AttacksCancelledError

    def end(self, position: int, section: AttackSection) -> None:
        if self._begun:
            self._record(COMPLETED, position, status=section.status)

    def _recorded(self, session: Session, position: int) -> list[str]:
        recorded = EventRepository(session, self._project_id)
        events = recorded.of_type(self._experiment_id, STARTED, STOPPED, COMPLETED)
        own = position, self._later.get("later")
        return [one.type for one in events if (one.data["position"], one.data.get("later")) == own]

    def _record(self, type_: str, position: int, **more: str) -> None:
        data = {**self._later, "position": position, "kind": self._kind, **more}

        def record(session: Session) -> None:
            if self._writer.again and self._recorded(session, position)[-1:] == [type_]:
                return
            events = EventRepository(session, self._project_id)
            events.append(self._experiment_id, [(type_, data)])

        self._writer.write(record)
