"""Sweeps: admitted in one transaction, shown with their costs, and compared in a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import structlog
from sqlalchemy.orm import Session

from api.http.problems import ProblemError, not_found
from api.schemas.experiments import (
    ListedSweepBody,
    Progress,
    Status,
    SubmittedSweepBody,
    SweepBody,
    SweepCellBody,
    SweepProgress,
    SweepValidationBody,
)
from api.schemas.people import ActorBody
from api.services.admission import RolledBack, parse_inherited, plan
from api.services.disclosure import warnings_of
from api.services.dispatch import IdempotentRequest, UnitMessage
from api.services.submission import admitting_for
from api.shared.concurrency import stop_if_given_up
from api.shared.quotas import refuse_over_running
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.accounting.mechanism_parameters import CostKind
from fedaudit.privacy.accounting.privacy_events import REPORT
from fedaudit.privacy.leakage import leakage
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.sweeps.sweep_cells import SweepCell, parse_cells, placed
from fedaudit.spec.sweeps.sweep_spec import SweepSpec, parse_sweep
from fedaudit.sweeps.named_figures import named_figures
from fedaudit.sweeps.report_section import CellPlace, larger_sums, sweep_section
from fedaudit.sweeps.sweep_costs import SweepCosts, sweep_costs
from fedaudit.sweeps.sweep_facts import SweepFacts, sweep_facts
from fedaudit.sweeps.sweep_table import CellFigures, SweepTable, sweep_table
from models.identifiers import is_id, new_id
from models.report_values import IndexedFigure
from models.repositories import (
    AuditLogRepository,
    ExperimentRepository,
    ReportListRepository,
    ReportRepository,
    SweepRepository,
)
from models.repositories.experiments import ENDED
from models.repositories.sweeps.sweeps import CellRow, SweepState
from models.tables.sweeps.sweeps import Sweep
from models.values import BookedCost

_GOING_ON = ("running", "cancelling")


def sweep_body(session: Session, caller: Caller, sweep: Sweep) -> SweepBody:
    """A sweep with its cells and what it costs."""
    sweeps = SweepRepository(session, caller.project_id)
    state = sweeps.states([sweep.id])[sweep.id]
    return SweepBody(
        **_head(sweep, state).model_dump(),
        asked=sweep.asked,
        costs=costs_of(session, caller, sweep),
        facts=cast(SweepFacts, sweep.facts),
        cells=[_cell(cell) for cell in sweeps.cells(sweep.id)],
    )


def submitted_body(
    session: Session, caller: Caller, sweep: Sweep, warnings: Sequence[str]
) -> SubmittedSweepBody:
    """A sweep that was accepted."""
    return SubmittedSweepBody(**vars(sweep_body(session, caller, sweep)), warnings=list(warnings))


def listed_bodies(
    session: Session, caller: Caller, sweeps: Sequence[Sweep]
) -> list[ListedSweepBody]:
    """Sweeps in a list, without their cells."""
    states = SweepRepository(session, caller.project_id).states([one.id for one in sweeps])
    return [_head(one, states[one.id]) for one in sweeps]


def costs_of(session: Session, caller: Caller, sweep: Sweep) -> SweepCosts:
    """What all tries of all cells have booked together, as it is now."""
    sweeps = SweepRepository(session, caller.project_id)
    return sweep_costs(sweeps.booked(sweep.id), runs=sweeps.tries(sweep.id), facts=sweep.facts)


def _cell(cell: CellRow) -> SweepCellBody:
    experiment = cell.experiment
    return SweepCellBody(
        position=cell.position,
        experiment_id=experiment.id,
        values=dict(cell.values),
        status=cast(Status, experiment.status),
        status_reason=experiment.status_reason,
        gate_outcome=experiment.gate_outcome,
        progress=Progress(round=experiment.rounds_done, rounds=experiment.rounds_total),
    )


def _head(sweep: Sweep, state: SweepState) -> ListedSweepBody:
    return ListedSweepBody(
        id=sweep.id,
        name=sweep.name,
        status=status_of(state),
        progress=SweepProgress(
            cells=sweep.cells,
            ended=sum(state.statuses[one] for one in ENDED),
            statuses=dict(state.statuses),
            rounds=state.rounds_done,
            rounds_total=state.rounds_total,
        ),
        created_at=sweep.created_at,
        created_by=ActorBody.model_validate(sweep.created_by),
    )


def status_of(state: SweepState) -> Status:
    """Of the sweep as one: `failed` only where every cell failed, `succeeded` where one did not."""
    counts = state.statuses
    ended = sum(counts[one] for one in ENDED)
    if ended < sum(counts.values()):
        if counts["cancelling"]:
            return "cancelling"
        return "running" if ended or any(counts[one] for one in _GOING_ON) else "queued"
    if counts["succeeded"]:
        return "succeeded"
    return "failed" if counts["failed"] else "cancelled"


def with_costs_of_now(
    session: Session, caller: Caller, experiment_id: str, document: Mapping[str, Any]
) -> Mapping[str, Any]:
    """A report with what its sweep has booked by now, and never less than it states.

    Cells that were cancelled may have been tried again since, and whoever chose this run has looked
    at them too.
    """
    section = document.get("sweep")
    sweeps = SweepRepository(session, caller.project_id)
    found = sweeps.cell_of(experiment_id)
    if section is None or found is None:
        return document
    sweep, cell = found
    place = CellPlace(
        sweep_id=sweep.id,
        name=sweep.name,
        cells=sweep.cells,
        position=cell.position,
        values=cell.values,
        facts=sweep.facts,
        tries=len(sweeps.tries(sweep.id)),
    )
    now = sweep_section(place, costs_of(session, caller, sweep), when="by now").model_dump()
    more = larger_sums(now, section)
    changed = {
        **section,
        **{name: now[name] for name in more},
        "epsilon": (now if "sweep_epsilon_max" in more else section)["epsilon"],
        "reasons": {**section["reasons"], **{name: now["reasons"][name] for name in more}},
    }
    return {**document, "sweep": changed}


def table_of(session: Session, caller: Caller, sweep: Sweep) -> SweepTable:
    """As far as its cells have ended: those that have not count as seeds without figures."""
    sweeps = SweepRepository(session, caller.project_id)
    cells = sweeps.cells(sweep.id)
    ids = [cell.experiment.id for cell in cells]
    figures = ReportListRepository(session, caller.project_id).figures(ids)
    degenerate = sweeps.degenerate(ids)
    terms = _cost_terms(sweeps.booked(sweep.id))
    return sweep_table(
        [
            _of_cell(
                cell,
                figures[cell.experiment.id],
                degenerate=cell.experiment.id in degenerate,
                terms=terms.get(cell.experiment.id, {}),
            )
            for cell in cells
        ]
    )


def _cost_terms(booked: Sequence[BookedCost]) -> dict[str, dict[str, str]]:
    """By experiment and what is counted, what training was booked under."""
    found: dict[str, dict[str, set[str]]] = {}
    for one in booked:
        # What a report reveals of the people held out is not in the figures of training.
        if one.observer != REPORT:
            term = f"{one.observer}, {one.terms}, {one.unit}, {one.delta}"
            found.setdefault(one.experiment_id, {}).setdefault(one.figure, set()).add(term)
    return {
        id_: {figure: "; ".join(sorted(terms)) for figure, terms in of_figure.items()}
        for id_, of_figure in found.items()
    }


def _of_cell(
    cell: CellRow, figures: Sequence[IndexedFigure], *, degenerate: bool, terms: Mapping[str, str]
) -> CellFigures:
    return CellFigures(
        experiment_id=cell.experiment.id,
        values=cell.values,
        succeeded=cell.experiment.status == "succeeded",
        degenerate=degenerate,
        figures=named_figures(figures),
        # Simulated noise protects nobody, so its costs are not those of noise that does.
        cost_terms={name: f"{cell.experiment.noise}: {said}" for name, said in terms.items()},
    )


log = structlog.get_logger()

_TRIED_AGAIN = ("failed", "cancelled")


@dataclass(frozen=True)
class PlannedSweep:
    """A sweep that can be run, and what it would cost."""

    spec: SweepSpec
    cells: Sequence[tuple[SweepCell, ExperimentPlan]]

    @property
    def facts(self) -> SweepFacts:
        """What is known of all cells together."""
        return sweep_facts([(one.spec, one.ledger_context) for _, one in self.cells])


@dataclass(frozen=True)
class SubmittedSweep:
    """The sweep as it is now; messages of the units that were queued just now."""

    sweep: Sweep
    messages: list[UnitMessage] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plan_sweep(resources: Resources, caller: Caller, value: Any) -> PlannedSweep:
    """Every cell over its data; no transaction.

    Raises InvalidInputError, with the faults of cells at the fields they follow from.
    """
    sweep = parse_sweep(value)
    planned = []
    for cell, spec in parse_cells(sweep, partial(parse_inherited, resources, caller)):
        stop_if_given_up()
        try:
            planned.append((cell, plan(resources, caller, spec)))
        except InvalidInputError as error:
            raise InvalidInputError([placed(sweep, cell, one) for one in error.errors]) from None
    return PlannedSweep(sweep, planned)


def submit_sweep(
    resources: Resources, caller: Caller, value: Any, idempotency: IdempotentRequest | None
) -> SubmittedSweep:
    """Queue every cell. Raises InvalidInputError, ProblemError; nothing is then stored."""
    if idempotency is not None:
        with resources.database.read() as session:
            if known := idempotency.lookup(session, caller):
                return SubmittedSweep(find_sweep(session, caller, known.resource_id or ""))
    planned = plan_sweep(resources, caller, value)
    sweep_id = new_id()
    with resources.database.write() as session:
        if (
            idempotency is not None
            and not idempotency.claim(session, caller, sweep_id)
            # The same request came twice at once, and the other one was first.
            and (known := idempotency.lookup(session, caller))
        ):
            return SubmittedSweep(find_sweep(session, caller, known.resource_id or ""))
        submitted = _store(resources, session, caller, sweep_id, planned)
    log.info("sweep queued", sweep_id=sweep_id, cells=len(planned.cells))
    return submitted


def try_sweep(resources: Resources, caller: Caller, value: Any) -> SweepValidationBody:
    """What a submission would meet at present: the reservation itself, rolled back.

    Raises InvalidInputError, or ProblemError where it would be refused for another reason than a
    budget.
    """
    planned = plan_sweep(resources, caller, value)
    found = SweepValidationBody(
        cells=len(planned.cells),
        costs=None,
        facts=planned.facts,
        has_room=False,
        detail=None,
        warnings=[],
    )
    try:
        with resources.database.write() as session:
            submitted = _store(resources, session, caller, new_id(), planned)
            found.costs = costs_of(session, caller, submitted.sweep)
            found.has_room, found.warnings = True, submitted.warnings
            raise RolledBack
    except RolledBack:
        pass
    except ProblemError as error:
        if error.slug != "budget-exhausted":
            raise
        found.detail = error.detail
    return found


def _store(
    resources: Resources, session: Session, caller: Caller, sweep_id: str, planned: PlannedSweep
) -> SubmittedSweep:
    ids, messages, drawn_on = [], [], set[tuple[str, str, CostKind]]()
    with admitting_for(resources, session, caller) as admitting:
        for position, (_, one) in enumerate(planned.cells):
            ids.append(new_id())
            message = admitting.queue(one)
            try:
                queued = admitting.admit(one, message, experiment_id=ids[-1])
            except ProblemError as error:
                raise _refused(error, position, len(planned.cells)) from None
            messages.append(message)
            kind = one.ledger_context.inputs.cost_kind
            drawn_on.add((queued.federation_id, queued.noise, kind))
    warnings = dict[str, None]()
    for federation_id, noise, kind in sorted(drawn_on):
        found = warnings_of(
            session,
            caller.project_id,
            federation_id,
            noise=noise,
            cost_kind=kind,
            across=resources.settings.budgets_across,
        )
        warnings |= dict.fromkeys(found)
    sweep = SweepRepository(session, caller.project_id).add(
        sweep_id,
        name=planned.spec.name,
        asked=planned.spec.model_dump(mode="json"),
        facts=planned.facts,
        cells=[(id_, cell.values) for id_, (cell, _) in zip(ids, planned.cells, strict=True)],
        by=caller.actor,
    )
    AuditLogRepository(session, caller.project_id).enter(
        "sweep.submitted", sweep_id, by=caller.actor, name=sweep.name, cells=len(ids)
    )
    refuse_over_running(session, caller.project_id, resources.settings)
    return SubmittedSweep(sweep, messages, list(warnings))


def _refused(error: ProblemError, position: int, cells: int) -> ProblemError:
    """The refusal of one cell as that of the sweep, which stored nothing."""
    return ProblemError(
        error.status,
        error.slug,
        f"cell {position + 1} of {cells} is refused, and so is the sweep; nothing was queued: "
        f"{error.detail}",
        errors=error.errors,
        headers=error.headers,
        cell=position,
        **error.members,
    )


def find_sweep(session: Session, caller: Caller, sweep_id: str) -> Sweep:
    """Raises ProblemError where the caller's project has no such sweep."""
    found = None
    if is_id(sweep_id):
        found = SweepRepository(session, caller.project_id).get(sweep_id)
    if found is None:
        raise not_found("sweep")
    return found


def cancel_sweep(resources: Resources, caller: Caller, sweep_id: str) -> Sweep:
    """Ask for the end of every cell that has not ended.

    Raises ProblemError where all have, or there is no such sweep.
    """
    with resources.database.write() as session:
        sweep = find_sweep(session, caller, sweep_id)
        cells = SweepRepository(session, caller.project_id).cells(sweep.id)
        going_on = [one for one in cells if one.experiment.status not in ENDED]
        if not going_on:
            raise ProblemError(409, "conflict", "every cell of the sweep has ended")
        experiments = ExperimentRepository(session, caller.project_id)
        for cell in going_on:
            experiments.request_cancel(cell.experiment.id, price=leakage, cancelled_by=caller.actor)
        AuditLogRepository(session, caller.project_id).enter(
            "sweep.cancelled", sweep.id, by=caller.actor, cells=len(going_on)
        )
        return sweep


def retry_sweep(
    resources: Resources, caller: Caller, sweep_id: str, idempotency: IdempotentRequest | None
) -> SubmittedSweep:
    """Queue every cell that failed or was cancelled once more, as new experiments of the sweep.

    Raises ProblemError where there is none, or a budget has no room for them; InvalidInputError
    where their data cannot be used any more.
    """
    with resources.database.read() as session:
        sweep = find_sweep(session, caller, sweep_id)
        if idempotency is not None and idempotency.lookup(session, caller):
            return SubmittedSweep(sweep)
        again = [
            cell
            for cell in SweepRepository(session, caller.project_id).cells(sweep.id)
            if cell.experiment.status in _TRIED_AGAIN
        ]
        _refuse_after_a_pass(session, caller, sweep)
    if not again:
        raise ProblemError(409, "conflict", "no cell of the sweep has failed or was cancelled")
    plans = [plan(resources, caller, parse_spec(cell.experiment.spec)) for cell in again]
    with resources.database.write() as session:
        if idempotency is not None and not idempotency.claim(session, caller, sweep.id):
            return SubmittedSweep(sweep)
        sweeps, messages = SweepRepository(session, caller.project_id), []
        sweeps.hold(sweep.id)
        # Once more: a report may have been signed while the cells were planned.
        _refuse_after_a_pass(session, caller, sweep)
        left = sweeps.leave(sweep.id, [cell.experiment.id for cell in again])
        if not left:
            raise ProblemError(
                409, "conflict", "another request has tried the cells again just now"
            )
        with admitting_for(resources, session, caller) as admitting:
            for cell, planned in zip(again, plans, strict=True):
                if (former := cell.experiment.id) in left:
                    messages.append(admitting.queue(planned))
                    id_ = new_id()
                    admitting.admit(planned, messages[-1], experiment_id=id_, retry_of=former)
                    sweeps.enter(sweep.id, cell, again=id_)
        AuditLogRepository(session, caller.project_id).enter(
            "sweep.retried", sweep.id, by=caller.actor, cells=len(messages)
        )
        refuse_over_running(session, caller.project_id, resources.settings)
    return SubmittedSweep(sweep, messages)


def _refuse_after_a_pass(session: Session, caller: Caller, sweep: Sweep) -> None:
    passed = _cells_that_passed_on_the_sweep(session, caller, sweep)
    if passed:
        raise ProblemError(
            409,
            "conflict",
            f"the report of cell {passed[0] + 1} passed a gate on what the sweep costs, which "
            "trying cells again would add to; submit what is missing as a sweep of its own",
        )


def _cells_that_passed_on_the_sweep(session: Session, caller: Caller, sweep: Sweep) -> list[int]:
    """Positions of cells whose signed report says that a gate on the sweep's costs passed."""
    found = []
    for cell in SweepRepository(session, caller.project_id).cells(sweep.id):
        asked = [gate["figure"] for gate in cell.experiment.spec.get("gates", ())]
        if not any(figure.startswith("sweep_") for figure in asked):
            continue
        report = ReportRepository(session, caller.project_id).get(cell.experiment.id)
        gates = [] if report is None else report.document["gates"]
        if any(one["figure"].startswith("sweep_") and one["outcome"] == "pass" for one in gates):
            found.append(cell.position)
    return found
