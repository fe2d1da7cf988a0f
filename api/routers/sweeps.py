"""Sweeps: many experiments as one request, and what they say together."""

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, BackgroundTasks, Query, Response
from starlette.responses import JSONResponse

from api.http.answers import JSON, Accept, preferred
from api.http.bodies import JsonBody
from api.openapi import TEXT, contents_by, located, problems, request_body
from api.schemas.base import IdempotencyHeader, PageParameters
from api.schemas.experiments import (
    SubmissionParameters,
    SubmittedSweepBody,
    SweepBody,
    SweepPage,
    SweepTableBody,
    SweepValidationBody,
)
from api.services.dispatch import IdempotentRequest, dispatch
from api.services.lookups import list_page
from api.services.sweeps import (
    SubmittedSweep,
    cancel_sweep,
    find_sweep,
    listed_bodies,
    retry_sweep,
    submit_sweep,
    submitted_body,
    sweep_body,
    table_of,
    try_sweep,
)
from api.shared.security import Call, ExperimentsReader, ExperimentsWriter, ReportsReader
from fedaudit.spec.sweeps import SweepSpec
from fedaudit.sweeps.sweep_table import SweepTable, as_csv, as_markdown
from models.repositories import SweepRepository

router = APIRouter(prefix="/sweeps", tags=["sweeps"])

_CSV, _MARKDOWN = "text/csv", "text/markdown"
_FILE = contents_by("The table.", {"csv": (_CSV, TEXT), "md": (_MARKDOWN, TEXT)}, 404)


@router.post(
    "",
    name="submit_sweep",
    status_code=202,
    response_model=SubmittedSweepBody,
    responses={
        **problems(409, 415, 429),
        200: {"model": SweepValidationBody, "description": "Valid; nothing was stored."},
        **located(202, "Every cell is queued.", "sweep"),
    },
    openapi_extra=request_body(SweepSpec),
)
async def submit_sweep_of_experiments(
    *,
    call: ExperimentsWriter,
    parameters: Annotated[SubmissionParameters, Query()],
    value: JsonBody,
    background: BackgroundTasks,
    response: Response,
    idempotency_key: IdempotencyHeader = None,
) -> SubmittedSweepBody | JSONResponse:
    """Queue an experiment for every combination of values, and reserve what all of them may cost.

    All cells are admitted, or none is.
    """

    def answer() -> SubmittedSweepBody | JSONResponse:
        if parameters.validate_only:
            return JSONResponse(try_sweep(call, value).model_dump(mode="json"))
        idempotency = IdempotentRequest.of(idempotency_key, "POST /v1/sweeps", value)
        return _accepted(submit_sweep(call, value, idempotency), call, background, response)

    return await call.resources.loads.run(call.project_id, answer)


@router.get("", responses=problems())
def list_sweeps(
    call: ExperimentsReader, parameters: Annotated[PageParameters, Query()]
) -> SweepPage:
    """The project's sweeps, newest first."""
    with call.reading() as session:
        rows = SweepRepository(session, call.project_id).list
        bodies = partial(listed_bodies, session, call.caller)
        return list_page(SweepPage, "sweeps", parameters, rows, bodies)


@router.get("/{sweep_id}", responses=problems(404))
def get_sweep(sweep_id: str, call: ExperimentsReader) -> SweepBody:
    """One sweep: its cells, how far they are, and what they cost together."""
    with call.reading() as session:
        return sweep_body(session, call.caller, find_sweep(session, call.caller, sweep_id))


@router.get("/{sweep_id}/table", response_model=SweepTableBody, responses=problems(404))
def get_sweep_table(sweep_id: str, call: ReportsReader, accept: Accept) -> Response:
    """Every combination with its figures over seeds.

    A figure is called best in a row only where its interval is disjoint from those of all others.
    """
    media_type = preferred(accept, (JSON, _CSV, _MARKDOWN))
    if media_type != JSON:
        return export_sweep_table(sweep_id, "csv" if media_type == _CSV else "md", call)
    return JSONResponse(_table(sweep_id, call))


@router.get("/{sweep_id}/table.{form}", response_class=Response, responses=_FILE)
def export_sweep_table(sweep_id: str, form: Literal["csv", "md"], call: ReportsReader) -> Response:
    """Every combination with its figures over seeds, as a file."""
    found = _table(sweep_id, call)
    if form == "csv":
        return Response(as_csv(found), media_type=_CSV)
    return Response(as_markdown(found), media_type=_MARKDOWN)


def _table(sweep_id: str, call: Call) -> SweepTable:
    with call.reading() as session:
        return table_of(session, call.caller, find_sweep(session, call.caller, sweep_id))


@router.post("/{sweep_id}/cancel", name="cancel_sweep", responses=problems(404, 409))
def cancel_sweep_of_experiments(sweep_id: str, call: ExperimentsWriter) -> SweepBody:
    """Ask for the end of every cell that has not ended."""
    sweep = cancel_sweep(call, sweep_id)
    with call.reading() as session:
        return sweep_body(session, call.caller, sweep)


@router.post(
    "/{sweep_id}/retry",
    name="retry_sweep",
    status_code=202,
    responses=problems(404, 409, 429) | located(202, "Queued.", "sweep"),
)
async def retry_cells(
    *,
    sweep_id: str,
    call: ExperimentsWriter,
    background: BackgroundTasks,
    response: Response,
    idempotency_key: IdempotencyHeader = None,
) -> SubmittedSweepBody:
    """Queue every cell that failed or was cancelled again, as new experiments of the sweep.

    The spending of earlier tries stays in the sweep's costs.
    """

    def answer() -> SubmittedSweepBody:
        route = f"POST /v1/sweeps/{sweep_id}/retry"
        idempotency = IdempotentRequest.of(idempotency_key, route, None)
        submitted = retry_sweep(call, sweep_id, idempotency)
        return _accepted(submitted, call, background, response)

    return await call.resources.loads.run(call.project_id, answer)


def _accepted(
    submitted: SubmittedSweep, call: Call, background: BackgroundTasks, response: Response
) -> SubmittedSweepBody:
    # After the answer: a broker that is away must not keep the caller waiting.
    background.add_task(dispatch, call.resources, *submitted.units)
    response.headers["Location"] = f"/v1/sweeps/{submitted.sweep.id}"
    with call.reading() as session:
        return submitted_body(session, call.caller, submitted.sweep, submitted.warnings)
