"""One unit of work: claimed, run to its end, or given back."""

import structlog
from sqlalchemy.orm import Session

from fedaudit.spec.errors import InvalidInputError
from models.repositories import ExperimentRepository, UnitRepository
from models.repositories.experiments import ENDED
from models.tables.experiments import Experiment
from models.values import UnitKind
from workers.claim import Lease, LeaseLostError
from workers.claimed_unit import DETAIL_CHARACTERS, ClaimedUnit
from workers.context import WorkerContext
from workers.disclosure_memory import settle_disclosures
from workers.finish import end_without_report
from workers.flush import DatabaseAwayError
from workers.profile_unit import ProfileRun
from workers.resume import load_cell, resume_experiment
from workers.running_experiment import RunningExperiment
from workers.uploaded_files import ProjectFiles

log = structlog.get_logger()

_ROUNDING = b"fedaudit-rounding-key-1"


def run_unit(context: WorkerContext, unit_id: str) -> None:
    """Run a unit if this worker obtains the claim; otherwise do nothing.

    Returns when the unit has ended, was given back or was lost to another holder.
    """
    with context.database.write() as session:
        claim = UnitRepository(session).claim(
            unit_id,
            worker=context.name,
            devices={"auto", context.device_kind},
            lease_seconds=context.settings.lease_seconds,
        )
    if claim is None:
        return
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


class UnitRun(ClaimedUnit):
    """The experiments of one claimed unit."""

    def run(self) -> None:
        """Run every experiment to its end, or give the unit back when the worker must stop."""
        log.info("unit claimed", attempt=self._claim.attempts)
        running = [found for row in self._open_rows() if (found := self._take_up(row))]
        if running:
            # Imports torch, which a worker that only refuses bad data need not load.
            from workers.run_loop import RunLoop

            if not RunLoop(self._context, self._lease, self._writer, running).play():
                self._give_back()
                return
        self._writer.write(lambda session: self._finish(session, "done"))
        log.info("unit done")

    def _open_rows(self) -> list[Experiment]:
        """The unit's experiments to run, in their order, now `running`."""

        def start(session: Session) -> list[Experiment]:
            experiments = self._experiments(session)
            rows = []
            for row in experiments.of_unit(self._claim.unit_id):
                if row.status == "cancelling":
                    self._cancel(session, row)
                elif row.status not in ENDED:
                    experiments.start(row.id)
                    rows.append(experiments.get(row.id) or row)
            return rows

        return self._writer.write(start)

    def _take_up(self, row: Experiment) -> RunningExperiment | None:
        """The experiment ready to run; None where its data cannot be used, in which case it has
        failed."""
        database = self._context.database
        self._lease.progressed()
        try:
            files = ProjectFiles(self._context, self._claim.project_id).files
            cell = load_cell(database, row, files=files)
            found = resume_experiment(database, row, cell, key=self._context.signing_key.public)
            found.run.withheld = settle_disclosures(self._writer, found)
            self._lease.progressed()
            # The same in every run of this service, so that repeats are rounded alike.
            found.run.rounding_key = self._context.signing_key.derived_secret(_ROUNDING)
            return found
        except InvalidInputError as error:
            detail = str(error)[:DETAIL_CHARACTERS]
            log.warning("data refused", experiment_id=row.id, detail=detail)
            self._writer.write(
                lambda session: end_without_report(
                    session,
                    row.id,
                    row.project_id,
                    status="failed",
                    reason="invalid-data",
                    key=self._context.signing_key,
                    detail=detail,
                )
            )
            return None

    def _fail(self, session: Session, detail: str) -> None:
        for row in self._experiments(session).of_unit(self._claim.unit_id):
            if row.status == "cancelling":
                self._cancel(session, row)
            else:
                end_without_report(
                    session,
                    row.id,
                    row.project_id,
                    status="failed",
                    reason="worker-error",
                    key=self._context.signing_key,
                    detail=detail,
                )
        self._finish(session, "failed", error=detail)

    def _cancel(self, session: Session, row: Experiment) -> None:
        end_without_report(
            session,
            row.id,
            row.project_id,
            status="cancelled",
            reason="cancelled-by-caller",
            key=self._context.signing_key,
        )

    def _experiments(self, session: Session) -> ExperimentRepository:
        return ExperimentRepository(session, self._claim.project_id)


_KINDS: dict[UnitKind, type[ClaimedUnit]] = {"run": UnitRun, "profile": ProfileRun}
