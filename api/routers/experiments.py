"""Submit, find and end experiments, and follow their events."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Depends, Header, Query, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import JSONResponse

from api.http.bodies import JsonBody, SmallInteger, json_answer
from api.openapi import located, problems, request_body
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
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, ExperimentsReader, ExperimentsWriter
from fedaudit.spec.experiment import ExperimentSpec, spec_hash
from models.repositories import ApiKeyRepository, ExperimentRepository

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
    caller: ExperimentsWriter,
    parameters: Annotated[SubmissionParameters, Query()],
    value: JsonBody,
    resources: Shared,
    background: BackgroundTasks,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Queue the experiment that a spec asks for, and reserve what it may cost."""

    def validate() -> JSONResponse:
        planned = plan(resources, caller, parse_inherited(resources, caller, value))
        others = plan_others(resources, caller, planned)
        trial = try_admission(resources, caller, planned, others)
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
        submitted = submit(resources, caller, value, idempotency)
        return _accepted(submitted, caller, resources, background)

    answer = validate if parameters.validate_only else queue
    return await resources.loads.run(caller.project_id, answer)


@router.get("", response_model=ExperimentPage, responses=problems())
def list_experiments(
    caller: ExperimentsReader,
    parameters: Annotated[ExperimentParameters, Query()],
    resources: Shared,
) -> Response:
    """The project's experiments, newest first unless sorted otherwise."""
    return json_answer(experiment_page(resources, caller, parameters))


@router.get("/{experiment_id}", responses=problems(404))
def get_experiment(
    experiment_id: str, caller: ExperimentsReader, resources: Shared
) -> ExperimentBody:
    """One experiment."""
    with resources.database.read() as session:
        row = find_experiment(session, caller, experiment_id)
        tags = ExperimentRepository(session, caller.project_id).tags([row.id])
    return experiment_body(row, list(tags[row.id]), caller=caller)


@router.post("/{experiment_id}/cancel", responses=problems(404, 409))
def cancel_experiment(
    experiment_id: str, caller: ExperimentsWriter, resources: Shared
) -> ExperimentBody:
    """Ask for an end: `cancelled` at once where no worker has it, else `cancelling` until then."""
    cancelled = cancel(resources, caller, experiment_id)
    return experiment_body(cancelled.experiment, cancelled.tags, caller=caller)


@router.post(
    "/{experiment_id}/retry",
    status_code=202,
    response_model=SubmittedBody,
    responses=problems(404, 409, 429) | located(202, "Queued.", "experiment"),
)
async def retry_experiment(
    *,
    experiment_id: str,
    caller: ExperimentsWriter,
    resources: Shared,
    background: BackgroundTasks,
    idempotency_key: IdempotencyHeader = None,
) -> Response:
    """Queue the spec of a failed or cancelled experiment again, as a new experiment."""

    def answer() -> Response:
        with resources.database.read() as session:
            row = find_experiment(session, caller, experiment_id)
        route = f"POST /v1/experiments/{row.id}/retry"
        idempotency = IdempotentRequest.of(idempotency_key, route, None)
        submitted = retry(resources, caller, row, idempotency)
        return _accepted(submitted, caller, resources, background)

    return await resources.loads.run(caller.project_id, answer)


def _accepted(
    submitted: Submitted, caller: Caller, resources: Resources, background: BackgroundTasks
) -> Response:
    if submitted.unit_message is not None:
        # After the answer: a broker that is away must not keep the caller waiting.
        background.add_task(dispatch, resources, submitted.unit_message)
    location = {"Location": f"/v1/experiments/{submitted.experiment.id}"}
    return json_answer(submitted_body(submitted, caller=caller), status_code=202, headers=location)


def _event_log(experiment_id: str, caller: ExperimentsReader, resources: Shared) -> EventLog:
    with resources.database.read() as session:
        found = find_experiment(session, caller, experiment_id)
    return EventLog(
        resources,
        caller.project_id,
        found.id,
        in_force=lambda session: ApiKeyRepository(session).is_in_force(caller.secret_hash),
    )


async def _place(caller: ExperimentsReader, resources: Shared) -> AsyncIterator[None]:
    async with resources.streams.place(caller.key_id):
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
