"""A unit that attacks an experiment with a report: repeated or as stored, and told beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import structlog
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from fedaudit.attacks.feasibility import check_attacks
from fedaudit.reports.later import LaterStatement
from fedaudit.spec.attacks.attack_spec import AttackSpec
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_admitted
from fedaudit.training.base.cell import Cell
from fedaudit.version import __version__
from infrastructure.telemetry import span
from models.clock import utc_now
from models.repositories import ExperimentRepository, LaterAttacksRepository, ReportRepository
from models.tables.experiments import Experiment
from models.tables.reports import LaterAttacks, Report
from workers.claim import DETAIL_CHARACTERS, ClaimedUnit
from workers.context import ProjectFiles
from workers.resume import load_cell

if TYPE_CHECKING:
    from fedaudit.attacks.attack import AttackOutcome
    from workers.attacks.attack_watch import LeasedAttacks
    from workers.attacks.attacked_experiment import AttackedExperiment

log = structlog.get_logger()

_CANCELLED = "somebody asked for its end"


@dataclass(frozen=True)
class _Request:
    """What is asked for, with what it is about."""

    row: LaterAttacks
    experiment: Experiment
    report: Report
    before: Sequence[Mapping[str, Any]]
    """Sections of the attacks since the report."""


class LaterAttacksRun(ClaimedUnit):
    """The attacks of one claimed unit."""

    def run(self) -> None:
        """Carry them out, or give the unit back when the worker must stop."""
        log.info("attacks claimed", attempt=self._claim.attempts)
        request = self._writer.write(self._start)
        if request is not None:
            try:
                cell = self._cell(request)
            except InvalidInputError as error:
                # As experiments do: what is wrong with data is told to those who may read them.
                self._end_untried(request, "invalid-data", str(error))
            else:
                if not self._attack(request, cell):
                    self._give_back()
                    return
        self._writer.write(lambda session: self._finish(session, "done"))

    def _start(self, session: Session) -> _Request | None:
        later = self._later(session)
        row = later.of_unit(self._claim.unit_id)
        if row is None:
            return None
        if row.status == "cancelling":
            later.end(row.id, "cancelled", reason="cancelled-by-caller")
            return None
        later.start(row.id)
        experiment = ExperimentRepository(session, row.project_id).get(row.experiment_id)
        report = ReportRepository(session, row.project_id).get(row.experiment_id)
        if experiment is None or report is None:
            raise LookupError(f"no report of experiment {row.experiment_id}")
        return _Request(row, experiment, report, later.sections(row.experiment_id))

    def _cell(self, request: _Request) -> Cell:
        """The experiment's spec and data with the attacks that are asked for. Raises
        InvalidInputError."""
        own = ProjectFiles(self._context, self._claim.project_id)
        cell = load_cell(
            self._context.database,
            request.experiment,
            files=own.files,
            open_artifact=own.artifact,
            loaded={},
            parse=parse_admitted,
        )
        asked = TypeAdapter(list[AttackSpec]).validate_python(request.row.asked)
        cell = replace(cell, spec=cell.spec.model_copy(update={"attacks": asked}))
        check_attacks(cell)
        self._lease.progressed()
        return cell

    def _attack(self, request: _Request, cell: Cell) -> bool:
        """Whether they have come to an end; False where the worker was asked to stop."""
        # Import torch, which a worker that only refuses bad data need not load.
        from workers.attacks.attack_watch import (
            AttacksCancelledError,
            AttacksStoppedError,
            LeasedAttacks,
        )
        from workers.attacks.attacked_experiment import AttackedExperiment, NothingToAttackError

        row = request.row
        watch = LeasedAttacks(
            self._context,
            self._lease,
            self._writer,
            experiment_id=row.experiment_id,
            project_id=row.project_id,
            is_cancelled=lambda session: self._later(session).is_cancelling(row.id),
            later=row.number,
        )
        attacked = AttackedExperiment(
            self._context, request.experiment, request.report.document, cell, request.before
        )
        outcomes: list[AttackOutcome] = []
        try:
            with span("fedaudit.attacks", {"fedaudit.experiment_id": row.experiment_id}):
                self._carry_out(attacked, watch, outcomes)
        except AttacksStoppedError:
            return False
        except AttacksCancelledError:
            self._end_cancelled(request, attacked, outcomes)
        except NothingToAttackError as error:
            self._end_untried(request, error.reason, str(error))
        else:
            self._end(request, attacked, outcomes)
        return True

    def _carry_out(
        self,
        attacked: "AttackedExperiment",
        watch: "LeasedAttacks",
        outcomes: "list[AttackOutcome]",
    ) -> None:
        """Adds what each found to `outcomes`, which keeps it if the next is stopped."""
        from fedaudit.attacks.carried_out import carry_out

        run = attacked.attacked(watch.look)
        for outcome in carry_out(run, watch=watch):
            outcomes.append(outcome)

    def _end_cancelled(
        self, request: _Request, attacked: "AttackedExperiment", outcomes: "list[AttackOutcome]"
    ) -> None:
        """What was found before stays found: an end that is asked for hides nothing."""
        from fedaudit.attacks.carried_out import not_done

        if not outcomes:
            id_, why = request.row.id, "cancelled-by-caller"
            self._writer.write(
                lambda session: self._later(session).end(id_, "cancelled", reason=why)
            )
            return

        left = attacked.cell.spec.attacks[len(outcomes) :]
        self._end(
            request,
            attacked,
            [*outcomes, *(not_done(spec, _CANCELLED) for spec in left)],
            is_cancelled=True,
        )

    def _end(
        self,
        request: _Request,
        attacked: "AttackedExperiment",
        outcomes: "list[AttackOutcome]",
        *,
        is_cancelled: bool = False,
    ) -> None:
        from fedaudit.training.engine import backend
        from workers.attacks.later_end import end_later
        from workers.finish import store_attack_files

        row, key = request.row, self._context.signing_key
        statement = LaterStatement(
            experiment_id=row.experiment_id,
            number=row.number,
            report_hash=row.report_hash,
            ledger_hash=row.ledger_hash,
            basis=attacked.basis,
            asked=row.asked,
            attacks=[one.section.model_dump(mode="json") for one in outcomes],
            asked_by=row.created_by,
            asked_at=row.created_at.isoformat(),
            finished_at=utc_now().isoformat(),
            code_version=__version__,
            backend=backend(self._context.device),
        )
        store_attack_files(self._context.storage, row.project_id, row.id, outcomes)
        self._writer.write(
            lambda session: end_later(
                session,
                row,
                request.report,
                statement,
                status="cancelled" if is_cancelled else "succeeded",
                key=key,
            )
        )
        log.info("attacks ended", experiment_id=row.experiment_id, number=row.number)

    def _end_untried(self, request: _Request, reason: str, detail: str) -> None:
        id_, shown = request.row.id, detail[:DETAIL_CHARACTERS]
        log.warning("attacks not tried", experiment_id=request.row.experiment_id, reason=reason)
        self._writer.write(
            lambda session: self._later(session).end(id_, "failed", reason=reason, detail=shown)
        )

    def _fail(self, session: Session, detail: str) -> None:
        later = self._later(session)
        row = later.of_unit(self._claim.unit_id)
        if row is not None:
            later.end(row.id, "failed", reason="worker-error", detail=detail)
        self._finish(session, "failed", error=detail)

    def _later(self, session: Session) -> LaterAttacksRepository:
        return LaterAttacksRepository(session, self._claim.project_id)
