"""Sweeps: many experiments as one request, and what they say together."""

from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Query, Request, Response
from pydantic import TypeAdapter
from starlette.responses import JSONResponse

from api.http.bodies import JsonBody
from api.http.cursors import decode_cursor, encode_cursor
from api.http.links import Linked
from api.http.negotiation import Accept, preferred
from api.openapi import Responses, problems, request_body, schema_of
from api.schemas.base import IdempotencyHeader, PageParameters
from api.schemas.experiments import SubmissionParameters
from api.schemas.sweeps import (
    SubmittedSweepBody,
    SweepBody,
    SweepPage,
    SweepTableBody,
    SweepValidationBody,
)
from api.services.base.dispatch import dispatch
from api.services.base.idempotency import IdempotentRequest
from api.services.sweeps.sweep_bodies import listed_bodies, submitted_body, sweep_body
from api.services.sweeps.sweep_submission import (
    SubmittedSweep,
    cancel_sweep,
    find_sweep,
    retry_sweep,
    submit_sweep,
    try_sweep,
)
from api.services.sweeps.sweep_tables import table_of
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, ExperimentsReader, ExperimentsWriter, ReportsReader
from fedaudit.spec.base import Text
from fedaudit.spec.sweeps import SweepSpec
from fedaudit.sweeps.table_lines import as_csv, as_markdown
from models.repositories import SweepRepository

router = APIRouter(prefix="/sweeps", tags=["sweeps"])

_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])
_LOCATION = {"Location": {"description": "The sweep.", "schema": {"type": "string"}}}
_JSON, _CSV, _MARKDOWN = "application/json", "text/csv", "text/markdown"
_TABLE: Responses = {
    **problems(404),
    200: {
        "description": "The table.",
        "content": {
            _JSON: {"schema": schema_of(SweepTableBody)},
            _CSV: {"schema": {"type": "string"}},
            _MARKDOWN: {"schema": {"type": "string"}},
        },
    },
}


@router.post(
    "",
    status_code=202,
    response_model=SubmittedSweepBody,
    responses={
        **problems(409, 415, 429),
        200: {"model": SweepValidationBody, "description": "Valid; nothing was stored."},
        202: {"description": "Every cell is queued.", "headers": _LOCATION},
    },
    openapi_extra=request_body(SweepSpec),
)
async def submit_sweep_of_experiments(
    *,
    request: Request,
    caller: ExperimentsWriter,
    parameters: Annotated[SubmissionParameters, Query()],
    value: JsonBody,
    resources: Shared,
    background: BackgroundTasks,
    response: Response,
    idempotency_key: IdempotencyHeader = None,
) -> SubmittedSweepBody | JSONResponse:
    """Queue an experiment for every combination of values, and reserve what all of them may cost.

    All cells are admitted, or none is.
    """

    def answer() -> SubmittedSweepBody | JSONResponse:
        if parameters.validate_only:
            checked = try_sweep(resources, caller, value)
            return JSONResponse(checked.model_dump(mode="json"))
        idempotency = IdempotentRequest.of(idempotency_key, "POST /v1/sweeps", value)
        submitted = submit_sweep(resources, caller, value, idempotency)
        return _accepted(submitted, caller, resources, background, response)

    return await resources.loads.run(caller.project_id, answer, request=request)


@router.get("", responses=problems())
def list_sweeps(
    caller: ExperimentsReader,
    parameters: Annotated[PageParameters, Query()],
    resources: Shared,
    linked: Linked[SweepPage],
) -> SweepPage:
    """The project's sweeps, newest first."""
    cursor = decode_cursor("sweeps", parameters.cursor, _KEY)
    with resources.database.read() as session:
        sweeps = SweepRepository(session, caller.project_id)
        page = sweeps.list(cursor=cursor, limit=parameters.limit)
        items = listed_bodies(session, caller, page.items)
    return linked(SweepPage(items=items, next_cursor=encode_cursor("sweeps", page.next_cursor)))


@router.get("/{sweep_id}", responses=problems(404))
def get_sweep(sweep_id: str, caller: ExperimentsReader, resources: Shared) -> SweepBody:
    """One sweep: its cells, how far they are, and what they cost together."""
    with resources.database.read() as session:
        return sweep_body(session, caller, find_sweep(session, caller, sweep_id))


@router.get("/{sweep_id}/table", response_class=Response, responses=_TABLE)
def get_sweep_table(
    sweep_id: str, caller: ReportsReader, resources: Shared, accept: Accept
) -> Response:
    """Every combination with its figures over seeds, as JSON, CSV or Markdown by the header Accept.

    A figure is called best in a row only where its interval lies beyond those of all others.
    """
    with resources.database.read() as session:
        found = table_of(session, caller, find_sweep(session, caller, sweep_id))
    form = preferred(accept, (_JSON, _CSV, _MARKDOWN))
    if form == _CSV:
        return Response(as_csv(found), media_type=_CSV)
    if form == _MARKDOWN:
        return Response(as_markdown(found), media_type=_MARKDOWN)
    return JSONResponse(found)


@router.post("/{sweep_id}/cancel", responses=problems(404, 409))
def cancel_sweep_of_experiments(
    sweep_id: str, caller: ExperimentsWriter, resources: Shared
) -> SweepBody:
    """Ask for the end of every cell that has not ended."""
    sweep = cancel_sweep(resources, caller, sweep_id)
    with resources.database.read() as session:
        return sweep_body(session, caller, sweep)


@router.post(
    "/{sweep_id}/retry",
    status_code=202,
    responses={**problems(404, 409, 429), 202: {"description": "Queued.", "headers": _LOCATION}},
)
async def retry_cells(
    *,
    request: Request,
    sweep_id: str,
    caller: ExperimentsWriter,
    resources: Shared,
    background: BackgroundTasks,
    response: Response,
    idempotency_key: IdempotencyHeader = None,
) -> SubmittedSweepBody:
    """Queue every cell that failed or was cancelled again, as new experiments of the sweep.

    What the former tries spent stays in the sweep's costs.
    """

    def answer() -> SubmittedSweepBody:
        route = f"POST /v1/sweeps/{sweep_id}/retry"
        idempotency = IdempotentRequest.of(idempotency_key, route, None)
        submitted = retry_sweep(resources, caller, sweep_id, idempotency)
        return _accepted(submitted, caller, resources, background, response)

    return await resources.loads.run(caller.project_id, answer, request=request)


def _accepted(
    submitted: SubmittedSweep,
    caller: Caller,
    resources: Resources,
    background: BackgroundTasks,
    response: Response,
) -> SubmittedSweepBody:
    # After the answer: a broker that is away must not keep the caller waiting.
    background.add_task(dispatch, resources, *submitted.messages)
    response.headers["Location"] = f"/v1/sweeps/{submitted.sweep.id}"
    with resources.database.read() as session:
        return submitted_body(session, caller, submitted.sweep, submitted.warnings)
