"""A unit that attacks an experiment with a report, repeated or as stored, and reports beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import structlog
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from fedaudit import __version__
from fedaudit.attacks.attack_files import packed
from fedaudit.attacks.feasibility import check_attacks
from fedaudit.ledger.statements import Envelope
from fedaudit.reports.report import Basis, LaterStatement, judged_later
from fedaudit.reports.sections.attacks import raised_alarms
from fedaudit.spec.attacks import AttackSpec
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_admitted
from fedaudit.training.base.cell import Cell
from infrastructure.storage import file_key
from models.repositories import (
    EventRepository,
    ExperimentRepository,
    LaterAttacksRepository,
    ReportRepository,
)
from models.tables.experiments import Experiment, LaterAttacks, Report
from models.values import utc_now
from workers.claim import DETAIL_CHARACTERS, ClaimedUnit
from workers.finish import GATE_EVALUATED, alarm_events, report_index, store_file, stored_figures
from workers.flush import Loaded, load_cell
from workers.proof.signing import use_key

if TYPE_CHECKING:
    from fedaudit.attacks.attack import AttackOutcome

log = structlog.get_logger()

_CANCELLED = "its end was asked for"
_REASONS = {"succeeded": None, "cancelled": "cancelled-by-caller"}


@dataclass(frozen=True)
class _Request:
    """A request with the experiment and report that it is about."""

    row: LaterAttacks
    experiment: Experiment
    report: Report
    before: Sequence[Mapping[str, Any]]
    """Sections of the attacks since the report."""


class LaterAttacksRun(ClaimedUnit[_Request]):
    """The attacks of one claimed unit."""

    def _carry_out(self, request: _Request) -> None:
        database, experiment = self._context.database, request.experiment
        asked = TypeAdapter(list[AttackSpec]).validate_python(request.row.asked)
        try:
            cell = load_cell(
                database, experiment, own=self._own, loaded=Loaded(), parse=parse_admitted
            )
            cell = replace(cell, spec=cell.spec.model_copy(update={"attacks": asked}))
            check_attacks(cell)
        except InvalidInputError as error:
            # As of experiments: faults of data are shown to callers who may read them.
            self._end_untried(request, "invalid-data", str(error))
        else:
            self._lease.progressed()
            self._attack(request, cell)

    def _start(self, session: Session) -> _Request | None:
        later = self._later(session)
        row = later.of_unit(self._claim.id)
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

    def _attack(self, request: _Request, cell: Cell) -> None:
        # These import torch, which a worker that only refuses bad data need not load.
        from fedaudit.attacks.carried_out import carry_out, not_done
        from workers.attacks.attacked_experiment import (
            AttackedExperiment,
            AttacksCancelledError,
            LeasedAttacks,
            NothingToAttackError,
        )

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
            # One by one, which keeps what was found if the next is stopped.
            for outcome in carry_out(attacked.attacked(watch.look), watch=watch):
                outcomes.append(outcome)  # noqa: PERF402
        except AttacksCancelledError:
            if not outcomes:
                reason = _REASONS["cancelled"]
                self._writer.write(
                    lambda session: self._later(session).end(row.id, "cancelled", reason=reason)
                )
                return
            # What was found before stays found: cancelling hides nothing.
            left = (not_done(spec, _CANCELLED) for spec in cell.spec.attacks[len(outcomes) :])
            self._end(request, attacked.basis, [*outcomes, *left], status="cancelled")
        except NothingToAttackError as error:
            self._end_untried(request, error.reason, str(error))
        else:
            self._end(request, attacked.basis, outcomes, status="succeeded")

    def _end(
        self,
        request: _Request,
        basis: Basis,
        outcomes: "list[AttackOutcome]",
        *,
        status: Literal["succeeded", "cancelled"],
    ) -> None:
        """Ends the request with what was found."""
        from fedaudit.training.engine import backend

        row = request.row
        statement = LaterStatement(
            experiment_id=row.experiment_id,
            number=row.number,
            report_hash=row.report_hash,
            ledger_hash=row.ledger_hash,
            basis=basis,
            asked=row.asked,
            attacks=[one.section.model_dump(mode="json") for one in outcomes],
            asked_by=row.created_by,
            asked_at=row.created_at.isoformat(),
            finished_at=utc_now().isoformat(),
            code_version=__version__,
            backend=backend(self._context.device),
        )
        key = file_key("attack-files", row.project_id, row.id)
        files = packed(one.files for one in outcomes)
        store_file(self._context.storage, key, [files])
        self._writer.write(lambda session: self._store(session, request, statement, status=status))
        log.info("attacks ended", experiment_id=row.experiment_id, number=row.number)

    def _store(
        self,
        session: Session,
        request: _Request,
        statement: LaterStatement,
        *,
        status: Literal["succeeded", "cancelled"],
    ) -> None:
        """Stores what was found, signed behind what was found before, and judges the experiment by
        all of it: an alarm counts like one of the report. Changes nothing if it has ended."""
        row, report, key = request.row, request.report.document, self._context.signing_key
        id_, later = row.experiment_id, self._later(session)
        before = judged_later(report, later.sections(id_))
        newest = later.newest_envelope(id_)
        before_it = None if newest is None else Envelope.from_dict(newest)
        envelope = statement.sign_after(before_it, key)
        raised = len(raised_alarms(statement.fields()))
        if not later.end(
            row.id,
            status,
            reason=_REASONS[status],
            statement=statement.fields(),
            envelope=envelope.as_dict(),
            alarms=raised,
        ):
            return
        use_key(session, key)
        judged = judged_later(report, later.sections(id_))
        changed = [gate for gate in judged["gates"] if gate not in before["gates"]]
        events = [(GATE_EVALUATED, gate) for gate in changed]
        events += alarm_events(statement.attacks, later=row.number)
        EventRepository(session, row.project_id).append(id_, events)
        ReportRepository(session).restate(id_, summary=report_index(judged).summary)
        ExperimentRepository(session, row.project_id).judge_later(
            id_, raised=raised, figures=stored_figures(judged)
        )

    def _end_untried(self, request: _Request, reason: str, detail: str) -> None:
        id_, shown = request.row.id, detail[:DETAIL_CHARACTERS]
        log.warning("attacks not tried", experiment_id=request.row.experiment_id, reason=reason)
        self._writer.write(
            lambda session: self._later(session).end(id_, "failed", reason=reason, detail=shown)
        )

    def _later(self, session: Session) -> LaterAttacksRepository:
        return LaterAttacksRepository(session, self._claim.project_id)
