"""One unit of work: claimed, run to its end, or given back."""

from typing import Any

import structlog
from sqlalchemy.orm import Session

from fedaudit.attacks.feasibility import check_attacks
from fedaudit.spec.errors import InvalidInputError
from fedaudit.training.base.cell import stacks
from infrastructure.signing_keys import ROUNDING
from infrastructure.storage import remove_left_over
from models.repositories import (
    ExperimentRepository,
    LedgerRepository,
    SweepRepository,
    UnitRepository,
    UnitStackRepository,
)
from models.tables.experiments import Experiment, Unit
from models.values import ENDED, UnitKind
from workers.attacks.later_attacks_unit import LaterAttacksRun
from workers.audit_unit import AuditRun, ProfileRun
from workers.claim import DETAIL_CHARACTERS, ClaimedUnit, DatabaseAwayError, Lease, LeaseLostError
from workers.context import WorkerContext
from workers.disclosure_memory import settle_disclosures
from workers.finish import sign_end
from workers.flush import Loaded, RunningExperiment, load_cell, resume_experiment
from workers.proof.signing import enter_runs

log = structlog.get_logger()


def run_unit(context: WorkerContext, unit_id: str) -> bool:
    """Run a unit if this worker obtains the claim; returns when it has ended, was given back or was
    lost. False where there was no claim to be had."""
    with context.database.write() as session:
        claim = UnitRepository(session).claim(
            unit_id,
            worker=context.name,
            devices={"auto", context.device_kind},
            lease_seconds=context.settings.lease_seconds,
        )
        if claim is not None:
            beside = UnitStackRepository(session)
            if 1 < claim.attempts == claim.max_attempts:
                # A lease that ran out may be found here before the sweeper takes the unit apart.
                beside.take_apart(unit_id, held=True)
            beside.take_in(unit_id, most=context.settings.stack_cells)
    if claim is None:
        return False
    with (
        structlog.contextvars.bound_contextvars(unit_id=unit_id, fence=claim.fence),
        Lease(
            context.database,
            claim,
            seconds=context.settings.lease_seconds,
            renewed=context.heartbeat.beat,
        ) as lease,
    ):
        run = _KINDS[claim.kind](context, claim, lease)
        try:
            run.run()
        except LeaseLostError as lost:
            log.warning("lease lost; nothing more is written", detail=str(lost))
        except DatabaseAwayError:
            log.warning("database away; the unit is left to its lease")
        except Exception as error:
            log.exception("attempt failed", attempt=claim.attempts)
            run.give_up(error)
    remove_left_over(context.settings.scratch_dir)
    return True


class UnitRun(ClaimedUnit[list[Experiment]]):
    """The experiments of one claimed unit."""

    def __init__(self, context: WorkerContext, claim: Unit, lease: Lease) -> None:
        super().__init__(context, claim, lease)
        self._loaded = Loaded()
        """What its experiments share is loaded once."""
        self._stored: set[str] = set()
        """The experiments that may have begun before."""

    def _carry_out(self, found: list[Experiment]) -> None:
        taken_up = [one for row in found if (one := self._take_up(row))]
        refused = settle_disclosures(
            self._writer,
            taken_up,
            self._context.disclosed,
            secret=self._context.signing_key.derived_secret(ROUNDING),
            progressed=self._lease.progressed,
        )
        for one in taken_up:
            if one.id in refused:
                self._refuse(one.row, refused[one.id])
        running = [one for one in taken_up if one.id not in refused]
        if running:
            # Imports torch, which a worker that only refuses bad data need not load.
            from workers.run_loop import RunLoop

            # In their order: the report of the last one may speak of the others.
            for positions in stacks([one.run.cell for one in running]):
                group = [running[position] for position in positions]
                ids = " ".join(one.id for one in group)
                with structlog.contextvars.bound_contextvars(experiment_id=ids):
                    RunLoop(self._context, self._lease, self._writer, group).play()

    def _start(self, session: Session) -> list[Experiment]:
        """The unit's experiments to run, in their order, now `running`."""
        experiments, open_ = self._experiments(session), set[str]()
        for row in experiments.of_unit(self._claim.id):
            if row.status == "cancelling":
                self._end(session, row, "cancelled-by-caller")
            elif row.status not in ENDED:
                open_.add(row.id)
        begun = experiments.start_each(open_)
        self._stored = LedgerRepository(session).begun(open_)
        self._loaded.places = SweepRepository(session, self._claim.project_id).places(open_)
        rows = [row for row in experiments.of_unit(self._claim.id) if row.id in open_]
        # Last: who holds a log's lock waits for no row.
        new, key = [row for row in rows if row.id in begun], self._context.signing_key
        enter_runs(session, new, signed=self._stored, key=key)
        return rows

    def _take_up(self, row: Experiment) -> RunningExperiment | None:
        """The experiment ready to run; None where its data cannot be used, in which case it has
        failed."""
        database = self._context.database
        self._lease.progressed()
        try:
            cell = load_cell(database, row, own=self._own, loaded=self._loaded)
            check_attacks(cell)
            found = resume_experiment(
                database,
                row,
                cell,
                loaded=self._loaded,
                key=self._context.signing_key.public if row.id in self._stored else None,
            )
            # The same in every run of this service, so that repeats are rounded alike.
            found.run.rounding_key = self._context.signing_key.derived_secret(ROUNDING)
            return found
        except InvalidInputError as error:
            self._refuse(row, error)
            return None

    def _refuse(self, row: Experiment, error: InvalidInputError) -> None:
        detail = str(error)[:DETAIL_CHARACTERS]
        log.warning(
            "data refused", experiment_id=row.id, pointers=[one.pointer for one in error.errors]
        )
        self._writer.write(lambda session: self._end(session, row, "invalid-data", detail))

    def _end(
        self, session: Session, row: Experiment, reason: str, detail: str | None = None
    ) -> None:
        if self._experiments(session).fail(row.id, reason=reason, detail=detail):
            sign_end(session, row.id, row.project_id, key=self._context.signing_key)

    def _experiments(self, session: Session) -> ExperimentRepository:
        return ExperimentRepository(session, self._claim.project_id)


_KINDS: dict[UnitKind, type[ClaimedUnit[Any]]] = {
    "run": UnitRun,
    "profile": ProfileRun,
    "audit": AuditRun,
    "attacks": LaterAttacksRun,
}
