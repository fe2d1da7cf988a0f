"""Submit, find and end experiments, and follow their events."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Depends, Header, Query, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import JSONResponse

from api.http.answers import SmallInteger, json_answer
from api.http.bodies import JsonBody
from api.openapi import located, problems, query_parameters, request_body
from api.schemas.base import IdempotencyHeader
from api.schemas.experiments import (
    BudgetRoom,
    ExperimentBody,
    ExperimentPage,
    ExperimentParameters,
    ProjectionBody,
    SubmissionParameters,
    SubmittedBody,
    ValidationBody,
)
from api.services.admission import parse_inherited, plan
from api.services.dispatch import IdempotentRequest, dispatch
from api.services.experiments import EventLog, experiment_body, experiment_page, submitted_body
from api.services.lookups import find_experiment
from api.services.submission import Submitted, cancel, plan_others, retry, submit, try_admission
from api.shared.security import Call, ExperimentsReader, ExperimentsWriter
from fedaudit.spec.experiment import ExperimentSpec, spec_hash

router = APIRouter(prefix="/experiments", tags=["experiments"])
events_router = APIRouter(prefix="/experiments", tags=["events"])


@router.post(
    "",
    status_code=202,
    response_model=SubmittedBody,
    responses={
        **problems(409, 415, 429),
        200: {"model": ValidationBody, "description": "Valid; nothing was stored."},
        **located(202, "Queued.", "experiment"),
    },
    openapi_extra=request_body(ExperimentSpec),
)
async def submit_experiment(
    *,
    call: ExperimentsWriter,
    parameters: Annotated[SubmissionParameters, Query()],
    value: JsonBody,
    background: BackgroundTasks,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Queue the experiment that a spec asks for, and reserve what it may cost."""

    def validate() -> JSONResponse:
        planned = plan(call, parse_inherited(call, value))
        trial = try_admission(call, planned, plan_others(call, planned))
        found = ValidationBody(
            spec=planned.spec.model_dump(mode="json"),
            spec_hash=spec_hash(planned.spec),
            parameters=planned.parameters,
            clients=planned.federation.clients,
            training_clients=planned.training_clients,
            projection=ProjectionBody(**vars(planned.projection)),
            budget=BudgetRoom(has_room=trial.refusal is None, detail=trial.refusal),
            warnings=trial.warnings,
        )
        return JSONResponse(found.model_dump(mode="json"))

    def queue() -> Response:
        idempotency = IdempotentRequest.of(idempotency_key, "POST /v1/experiments", value)
        return _accepted(submit(call, value, idempotency), call, background)

    answer = validate if parameters.validate_only else queue
    return await call.resources.loads.run(call.project_id, answer)


@router.get(
    "",
    response_model=ExperimentPage,
    responses=problems(),
    openapi_extra=query_parameters(ExperimentParameters),
)
def list_experiments(
    call: ExperimentsReader,
    parameters: Annotated[ExperimentParameters, Depends(ExperimentParameters.of_query)],
) -> Response:
    """The project's experiments, newest first unless sorted otherwise."""
    return json_answer(experiment_page(call, parameters))


@router.get("/{experiment_id}", responses=problems(404))
def get_experiment(experiment_id: str, call: ExperimentsReader) -> ExperimentBody:
    """One experiment."""
    with call.reading() as session:
        row = find_experiment(session, call.caller, experiment_id)
    return experiment_body(row, caller=call.caller)


@router.post("/{experiment_id}/cancel", responses=problems(404, 409))
def cancel_experiment(experiment_id: str, call: ExperimentsWriter) -> ExperimentBody:
    """Ask for an end: `cancelled` at once where no worker has it, else `cancelling` until then."""
    return experiment_body(cancel(call, experiment_id).experiment, caller=call.caller)


@router.post(
    "/{experiment_id}/retry",
    status_code=202,
    response_model=SubmittedBody,
    responses=problems(404, 409, 429) | located(202, "Queued.", "experiment"),
)
async def retry_experiment(
    *,
    experiment_id: str,
    call: ExperimentsWriter,
    background: BackgroundTasks,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Queue the spec of a failed or cancelled experiment again, as a new experiment."""

    def answer() -> Response:
        with call.reading() as session:
            row = find_experiment(session, call.caller, experiment_id)
        route = f"POST /v1/experiments/{row.id}/retry"
        submitted = retry(call, row, IdempotentRequest.of(idempotency_key, route, None))
        return _accepted(submitted, call, background)

    return await call.resources.loads.run(call.project_id, answer)


def _accepted(submitted: Submitted, call: Call, background: BackgroundTasks) -> Response:
    if submitted.unit is not None:
        # After the answer: a broker that is away must not keep the caller waiting.
        background.add_task(dispatch, call.resources, submitted.unit)
    location = {"Location": f"/v1/experiments/{submitted.experiment.id}"}
    return json_answer(
        submitted_body(submitted, caller=call.caller), status_code=202, headers=location
    )


def _event_log(experiment_id: str, call: ExperimentsReader) -> EventLog:
    with call.reading() as session:
        found = find_experiment(session, call.caller, experiment_id)
    in_force = call.caller.is_in_force
    return EventLog(call.resources, call.project_id, found.id, in_force=in_force)


async def _place(call: ExperimentsReader) -> AsyncIterator[None]:
    async with call.resources.streams.place(call.caller.key_id):
        yield


@events_router.get(
    "/{experiment_id}/events",
    response_class=EventSourceResponse,
    responses=problems(404, 429),
    dependencies=[Depends(_place)],
)
async def follow_events(
    log: Annotated[EventLog, Depends(_event_log)],
    last_event_id: Annotated[
        SmallInteger, Header(description="Events up to this number are left out.")
    ] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """Events as they happen, and those before, until the experiment has ended.

    `id` counts from 1 within the experiment. A comment is sent where nothing happens for 15 s.
    """
    async for message in log.follow(last_event_id):
        yield message
