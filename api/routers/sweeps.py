"""Sweeps: admitted in one transaction, shown with their costs, and compared in a table."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, cast

import structlog
from fastapi import Response
from sqlalchemy.orm import Session
from starlette.responses import JSONResponse

from api.http.answers import JSON, Accept, preferred
from api.http.problems import ProblemError, conflict
from api.openapi import TEXT, Router, contents_by, located, problems, request_body
from api.schemas import experiments
from api.schemas.base import PageParameters, of_row
from api.services.admission import parse_inherited, plan
from api.services.disclosure import warnings_of
from api.services.dispatch import IdempotentRequest, Queued, Repeating, Submission, Submitting
from api.services.lookups import finder, list_page, note
from api.services.submission import RETRIED, admitting, dry_run
from api.shared.security import (
    Call,
    Caller,
    ExperimentsReader,
    ExperimentsWriter,
    ReportsReader,
    refuse_over_running,
)
from fedaudit.privacy.accounting.privacy_events import REPORT
from fedaudit.reports.sections.guarantee import OF_ALL_SEEDS
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from fedaudit.spec.sweeps import SweepCell, SweepSpec, parse_cells, parse_sweep, placed
from fedaudit.stored import ReservedCost
from fedaudit.sweeps.report_section import larger_sums, named_figures, sweep_section
from fedaudit.sweeps.sweep_costs import SweepCosts, SweepFacts, sweep_costs, sweep_facts
from fedaudit.sweeps.sweep_table import CellFigures, SweepTable, as_csv, as_markdown, sweep_table
from models.repositories import (
    ExperimentRepository,
    ReportListRepository,
    ReportRepository,
    SweepRepository,
)
from models.repositories.sweeps import SweepState
from models.tables.experiments import Experiment, Sweep
from models.values import ENDED, new_id

log = structlog.get_logger()
router = Router(prefix="/sweeps", tags=["sweeps"])

find_sweep = finder(SweepRepository, "sweep")
_CSV, _MARKDOWN = "text/csv", "text/markdown"
_FILE = contents_by("The table.", {"csv": (_CSV, TEXT), "md": (_MARKDOWN, TEXT)})


@router.post(
    "",
    status_code=202,
    response_model=experiments.SubmittedSweepBody,
    responses={
        **problems(409),
        200: {
            "model": experiments.SweepValidationBody,
            "description": "Valid; nothing was stored.",
        },
        **located(202, "Every cell is queued.", "sweep"),
    },
    openapi_extra=request_body(SweepSpec),
)
async def submit_sweep(
    call: Submitting, parameters: experiments.SubmissionParameters
) -> experiments.SubmittedSweepBody | JSONResponse:
    """Queue an experiment for every combination of values, and reserve what all of them may cost.

    All cells are admitted, or none is.
    """

    def answer() -> experiments.SubmittedSweepBody | JSONResponse:
        if parameters.validate_only:
            return JSONResponse(_tried(call).model_dump(mode="json"))
        return _accepted(call, _submitted(call))

    return await call.run(answer)


@router.get("")
def list_sweeps(call: ExperimentsReader, parameters: PageParameters) -> experiments.SweepPage:
    """The project's sweeps, newest first."""
    with call.reading() as session:
        rows = SweepRepository(session, call.project_id).list
        bodies = partial(listed_bodies, session, call.caller)
        return list_page(experiments.SweepPage, "sweeps", parameters, rows, bodies)


@router.get("/{sweep_id}")
def get_sweep(sweep_id: str, call: ExperimentsReader) -> experiments.SweepBody:
    """One sweep: its cells, how far they are, and what they cost together."""
    with call.reading() as session:
        return sweep_body(session, call.caller, find_sweep(session, call.caller, sweep_id))


@router.get("/{sweep_id}/table", response_model=experiments.SweepTableBody)
def get_sweep_table(sweep_id: str, call: ReportsReader, accept: Accept) -> Response:
    """Every combination with its figures over seeds.

    A figure is called best in a row only where its interval is disjoint from those of all others.
    """
    media_type = preferred(accept, (JSON, _CSV, _MARKDOWN))
    if media_type != JSON:
        return export_sweep_table(sweep_id, "csv" if media_type == _CSV else "md", call)
    return JSONResponse(table_of(sweep_id, call))


@router.get("/{sweep_id}/table.{form}", responses=_FILE)
def export_sweep_table(sweep_id: str, form: Literal["csv", "md"], call: ReportsReader) -> Response:
    """Every combination with its figures over seeds, as a file."""
    found = table_of(sweep_id, call)
    if form == "csv":
        return Response(as_csv(found), media_type=_CSV)
    return Response(as_markdown(found), media_type=_MARKDOWN)


@router.post("/{sweep_id}/cancel", responses=problems(409))
def cancel_sweep(sweep_id: str, call: ExperimentsWriter) -> experiments.SweepBody:
    """Ask for the end of every cell that has not ended."""
    with call.writing() as session:
        sweep = find_sweep(session, call.caller, sweep_id)
        cells = SweepRepository(session, call.project_id).cells(sweep.id)
        going_on = [run.id for _, run in cells if run.status not in ENDED]
        if not going_on:
            raise conflict("every cell of the sweep has ended")
        ExperimentRepository(session, call.project_id).request_cancel(
            *going_on, cancelled_by=call.caller.actor
        )
        note(session, call.caller, "sweep.cancelled", sweep.id, cells=len(going_on))
    return get_sweep(sweep_id, call)


@router.post(
    "/{sweep_id}/retry",
    name="retry_sweep",
    status_code=202,
    responses=problems(409) | located(202, "Queued.", "sweep"),
)
async def retry_cells(sweep_id: str, call: Repeating) -> experiments.SubmittedSweepBody:
    """Queue every cell that failed or was cancelled again, as new experiments of the sweep.

    The spending of earlier tries stays in the sweep's costs.
    """

    def answer() -> experiments.SubmittedSweepBody:
        return _accepted(call, retry_sweep(call, sweep_id, call.idempotency))

    return await call.run(answer)


def _accepted(call: Submission, queued: Queued[Sweep]) -> experiments.SubmittedSweepBody:
    sweep = call.accepting.of(call, queued, f"/v1/sweeps/{queued.row.id}")
    with call.reading() as session:
        body = sweep_body(session, call.caller, sweep)
    return experiments.SubmittedSweepBody(**vars(body), warnings=queued.warnings)


def sweep_body(session: Session, caller: Caller, sweep: Sweep) -> experiments.SweepBody:
    """A sweep with its cells and its costs."""
    sweeps = SweepRepository(session, caller.project_id)
    cells = [
        of_row(
            experiments.SweepCellBody,
            run,
            position=cell.position,
            experiment_id=run.id,
            values=cell.values,
            progress={"round": run.rounds_done, "rounds": run.rounds_total},
        )
        for cell, run in sweeps.cells(sweep.id)
    ]
    return experiments.SweepBody(
        **listed_bodies(session, caller, [sweep])[0].model_dump(),
        asked=sweep.asked,
        costs=_costs_of(session, caller, sweep.id, sweep.facts),
        facts=cast(SweepFacts, sweep.facts),
        cells=cells,
    )


def listed_bodies(
    session: Session, caller: Caller, sweeps: Sequence[Sweep]
) -> list[experiments.ListedSweepBody]:
    """Sweeps in a list, without their cells."""
    states = SweepRepository(session, caller.project_id).states([one.id for one in sweeps])
    return [
        of_row(
            experiments.ListedSweepBody,
            sweep,
            status=_status_of(state),
            progress=experiments.SweepProgress(
                cells=sweep.cells,
                ended=sum(state.statuses[one] for one in ENDED),
                statuses=dict(state.statuses),
                rounds=state.rounds_done,
                rounds_total=state.rounds_total,
            ),
        )
        for sweep in sweeps
        for state in (states[sweep.id],)
    ]


def _status_of(state: SweepState) -> experiments.Status:
    """Status of the whole sweep: `failed` only where every cell failed, else `succeeded`."""
    counts = state.statuses
    ended = sum(counts[one] for one in ENDED)
    if ended < sum(counts.values()):
        if counts["cancelling"]:
            return "cancelling"
        return "running" if ended or counts["running"] else "queued"
    if counts["succeeded"]:
        return "succeeded"
    return "failed" if counts["failed"] else "cancelled"


def _costs_of(session: Session, caller: Caller, sweep_id: str, facts: Any) -> SweepCosts:
    """What all tries of all cells have charged together, as it is now."""
    reserved, tries = SweepRepository(session, caller.project_id).reserved_costs(sweep_id)
    return sweep_costs(reserved, runs=tries, facts=facts)


def with_costs_of_now(
    session: Session, caller: Caller, experiment_id: str, document: Mapping[str, Any]
) -> Mapping[str, Any]:
    """A report with the present costs of its sweep, and never less than it states. Cells that were
    cancelled may have been tried again since, and the choice of this run rests on them too."""
    section = document.get("sweep")
    sweeps = SweepRepository(session, caller.project_id)
    place = sweeps.places([experiment_id]).get(experiment_id)
    if section is None or place is None:
        return document
    reserved, tries = sweeps.reserved_costs(place.sweep_id)
    now = sweep_section(place, reserved, tries=tries, when="by now").model_dump()
    more = larger_sums(now, section)
    changed = {
        **section,
        **{name: now[name] for name in more},
        "epsilon": (now if "sweep_epsilon_max" in more else section)["epsilon"],
        "reasons": {**section["reasons"], **{name: now["reasons"][name] for name in more}},
    }
    return {**document, "sweep": changed}


def table_of(sweep_id: str, call: Call) -> SweepTable:
    """The table as far as cells have ended: others count as seeds without figures."""
    with call.reading() as session:
        sweep = find_sweep(session, call.caller, sweep_id)
        sweeps = SweepRepository(session, call.project_id)
        cells = sweeps.cells(sweep.id)
        ids = [run.id for _, run in cells]
        figures = ReportListRepository(session, call.project_id).figures(ids)
        degenerate = sweeps.degenerate(ids)
        terms = _cost_terms(sweeps.reserved_costs(sweep.id)[0])
    return sweep_table(
        [
            CellFigures(
                experiment_id=run.id,
                values=cell.values,
                succeeded=run.status == "succeeded",
                degenerate=run.id in degenerate,
                figures=named_figures(figures[run.id]),
                cost_terms=_meanings(run, terms.get(run.id, {})),
            )
            for cell, run in cells
        ]
    )


def _meanings(experiment: Experiment, terms: Mapping[str, Collection[str]]) -> dict[str, str]:
    """What an experiment's costs mean, by figure. Simulated noise protects nothing, so its costs
    are not those of secret noise; what an attack contradicts compares with nothing."""
    stated = {name: "; ".join(sorted(said)) for name, said in terms.items()}
    noise = f"contradicted, {experiment.id}" if experiment.alarms else experiment.noise
    return {name: f"{noise}: {said}" for name, said in stated.items()}


def _cost_terms(reserved: Sequence[ReservedCost]) -> dict[str, dict[str, set[str]]]:
    """The terms under which training was charged, by experiment and figure."""
    found: dict[str, dict[str, set[str]]] = {}
    for one in reserved:
        # What a report reveals of the people held out is not in the figures of training.
        if one.observer != REPORT:
            term = f"{one.observer}, {one.adjacency}, {one.unit}, {one.delta}"
            found.setdefault(one.experiment_id, {}).setdefault(one.figure, set()).add(term)
    return found


_PlannedCells = Sequence[tuple[SweepCell, ExperimentPlan]]


def _plan_sweep(call: Submission) -> tuple[SweepSpec, _PlannedCells]:
    """Every cell over its data; no transaction. Raises InvalidInputError, with the faults of cells
    at the fields they follow from."""
    sweep = parse_sweep(call.value)
    planned = []
    for cell, spec in parse_cells(sweep, partial(parse_inherited, call)):
        try:
            planned.append((cell, plan(call, spec)))
        except InvalidInputError as error:
            raise InvalidInputError([placed(sweep, cell, one) for one in error.errors]) from None
    return sweep, planned


def _facts(cells: _PlannedCells) -> SweepFacts:
    return sweep_facts([(one.spec, one.ledger_context) for _, one in cells])


def _submitted(call: Submission) -> Queued[Sweep]:
    """Queue every cell. Raises InvalidInputError, ProblemError; nothing is then stored."""
    if (earlier := call.idempotency.before(call, find_sweep)) is not None:
        return earlier
    spec, cells = _plan_sweep(call)
    sweep_id = new_id()
    with call.writing() as session:
        known = call.idempotency.claimed_before(session, call.caller, sweep_id)
        if known is not None:
            return Queued(find_sweep(session, call.caller, known))
        submitted = _store(session, call, sweep_id, spec, cells)
    log.info("sweep queued", sweep_id=sweep_id, cells=len(cells))
    return submitted


def _tried(call: Submission) -> experiments.SweepValidationBody:
    """What a submission would meet at present: the reservation itself, rolled back. Raises
    InvalidInputError, or ProblemError where it would be refused for another reason than a
    budget."""
    spec, cells = _plan_sweep(call)
    costs, warnings, refusals = None, list[str](), list[str]()
    with dry_run(call, refusals) as session:
        submitted = _store(session, call, new_id(), spec, cells)
        costs = _costs_of(session, call.caller, submitted.row.id, submitted.row.facts)
        warnings = submitted.warnings
    return experiments.SweepValidationBody(
        cells=len(cells),
        costs=costs,
        facts=_facts(cells),
        has_room=not refusals,
        detail=refusals[0] if refusals else None,
        warnings=warnings,
    )


def _store(
    session: Session, call: Call, sweep_id: str, spec: SweepSpec, cells: _PlannedCells
) -> Queued[Sweep]:
    units, admitted, stored = [], list[tuple[ExperimentPlan, Experiment]](), []
    with admitting(session, call) as admission:
        admission.hold(one for _, one in cells)
        for position, (cell, one) in enumerate(cells):
            units.append(admission.queue(one))
            try:
                run = admission.admit(one, units[-1], experiment_id=new_id())
            except ProblemError as error:
                raise _refused(error, position, len(cells)) from None
            admitted.append((one, run))
            stored.append((run.id, cell.values))
    sweep = SweepRepository(session, call.project_id).add(
        sweep_id,
        name=spec.name,
        asked=spec.model_dump(mode="json"),
        facts=_facts(cells),
        cells=stored,
        by=call.caller.actor,
    )
    note(session, call.caller, "sweep.submitted", sweep_id, name=sweep.name, cells=len(units))
    refuse_over_running(session, call.project_id, call.resources.settings)
    return Queued(sweep, units, _warnings(session, call, admitted))


def _warnings(
    session: Session, call: Call, admitted: Sequence[tuple[ExperimentPlan, Experiment]]
) -> list[str]:
    """What the sender of these cells should know of all of them."""
    budgets = call.budgets(session)
    warnings = dict.fromkeys(doubt for planned, _ in admitted for doubt in planned.doubts)
    drawn_on = {
        (run.federation_id, run.noise, planned.ledger_context.inputs.cost_kind)
        for planned, run in admitted
    }
    for federation_id, noise, kind in sorted(drawn_on):
        found = warnings_of(budgets, federation_id, noise=noise, cost_kind=kind)
        warnings |= dict.fromkeys(found)
    return list(warnings)


def _refused(error: ProblemError, position: int, cells: int) -> ProblemError:
    """The refusal of one cell as that of the sweep, which stored nothing."""
    return ProblemError(
        error.slug,
        f"cell {position + 1} of {cells} is refused, and so is the sweep; nothing was queued: "
        f"{error.detail}",
        errors=error.errors,
        headers=error.headers,
        cell=position,
        **error.members,
    )


def retry_sweep(call: Call, sweep_id: str, idempotency: IdempotentRequest) -> Queued[Sweep]:
    """Queue every cell that failed or was cancelled once more, as new experiments of the sweep.
    Raises ProblemError where there is none, or a budget has no room for them; InvalidInputError
    where their data cannot be used any more."""
    with call.reading() as session:
        sweep = find_sweep(session, call.caller, sweep_id)
        if idempotency.earlier(session, call.caller) is not None:
            return Queued(sweep)
        cells = SweepRepository(session, call.project_id).cells(sweep.id)
        again = [(cell, run) for cell, run in cells if run.status in RETRIED]
        _refuse_after_a_pass(session, call.caller, sweep)
    if not again:
        raise conflict("no cell of the sweep has failed or was cancelled")
    plans = [plan(call, parse_spec(former.spec)) for _, former in again]
    with call.writing() as session:
        if not idempotency.claim(session, call.caller, sweep.id):
            return Queued(sweep)
        sweeps, units = SweepRepository(session, call.project_id), []
        admitted = list[tuple[ExperimentPlan, Experiment]]()
        sweeps.hold(sweep.id)
        # Once more: a report may have been signed while the cells were planned.
        _refuse_after_a_pass(session, call.caller, sweep)
        left = sweeps.leave(sweep.id, [former.id for _, former in again])
        if not left:
            raise conflict("another request has tried the cells again just now")
        with admitting(session, call) as admission:
            admission.hold(plans)
            for (cell, former), planned in zip(again, plans, strict=True):
                if former.id in left:
                    units.append(admission.queue(planned))
                    run = admission.admit(
                        planned, units[-1], experiment_id=new_id(), retry_of=former.id
                    )
                    admitted.append((planned, run))
                    sweeps.enter(sweep.id, cell, again=run.id)
        note(session, call.caller, "sweep.retried", sweep.id, cells=len(units))
        refuse_over_running(session, call.project_id, call.resources.settings)
        return Queued(sweep, units, _warnings(session, call, admitted))


def _refuse_after_a_pass(session: Session, caller: Caller, sweep: Sweep) -> None:
    """Raises ProblemError where a cell's signed report passed a gate on the sweep's costs."""

    for cell, run in SweepRepository(session, caller.project_id).cells(sweep.id):
        named = {one["figure"] for one in run.spec.get("gates", ())}
        on_sweep = {one for one in named if one.startswith("sweep_")}
        if run.spec.get("repeats", 1) > 1:
            on_sweep |= named & set(OF_ALL_SEEDS)
        if not on_sweep:
            continue
        report = ReportRepository(session, caller.project_id).get(run.id)
        gates = [] if report is None else report.document["gates"]
        if any(one["figure"] in on_sweep and one["outcome"] == "pass" for one in gates):
            raise conflict(
                f"the report of cell {cell.position + 1} passed a gate on the costs of the sweep, "
                "which trying cells again would add to; submit what is missing as another sweep"
            )
