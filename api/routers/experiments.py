"""Submitting, finding and ending experiments."""

from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Query, Request, Response
from starlette.responses import JSONResponse

from api.http.bodies import JsonBody
from api.http.json_answers import json_answer
from api.http.links import link_headers
from api.openapi import problems, request_body
from api.schemas.base import IdempotencyHeader
from api.schemas.experiments import (
    BudgetRoom,
    ExperimentBody,
    ExperimentPage,
    ListParameters,
    ProjectionBody,
    SubmissionParameters,
    SubmittedBody,
    ValidationBody,
)
from api.services.base.dispatch import dispatch_with_others
from api.services.base.idempotency import IdempotentRequest
from api.services.base.lookups import find_experiment
from api.services.experiments.admission import Trial, plan, try_admission
from api.services.experiments.experiment_lists import (
    experiment_body,
    experiment_page,
    submitted_body,
)
from api.services.experiments.group_submission import Asked, prepared, queue_with_others
from api.services.experiments.inherited_spec import parse_inherited
from api.services.experiments.repeated_admission import plan_others
from api.services.experiments.submission import Submitted, cancel, retry
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, ExperimentsReader, ExperimentsWriter
from fedaudit.runs.experiment_plan import ExperimentPlan
from fedaudit.spec.experiment import ExperimentSpec, spec_hash
from models.repositories import ExperimentRepository

router = APIRouter(prefix="/experiments", tags=["experiments"])

_LOCATION = {"Location": {"description": "The experiment.", "schema": {"type": "string"}}}


@router.post(
    "",
    status_code=202,
    response_model=SubmittedBody,
    responses={
        **problems(409, 415, 429),
        200: {"model": ValidationBody, "description": "Valid; nothing was stored."},
        202: {"description": "Queued.", "headers": _LOCATION},
    },
    openapi_extra=request_body(ExperimentSpec),
)
async def submit_experiment(
    *,
    request: Request,
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
        trial = try_admission(resources, caller.project_id, planned, others)
        return JSONResponse(_validation(planned, trial).model_dump(mode="json"))

    def prepare() -> Submitted | Asked:
        idempotency = IdempotentRequest.of(idempotency_key, "POST /v1/experiments", value)
        return prepared(resources, caller, value, idempotency)

    if parameters.validate_only:
        return await resources.loads.run(caller.project_id, validate, request=request)
    submitted = await resources.loads.run(caller.project_id, prepare, request=request)
    if isinstance(submitted, Asked):
        submitted = await queue_with_others(resources, submitted)
    return _accepted(submitted, caller, resources, background)


@router.get("", response_model=ExperimentPage, responses=problems())
def list_experiments(
    request: Request,
    caller: ExperimentsReader,
    parameters: Annotated[ListParameters, Query()],
    resources: Shared,
) -> Response:
    """The project's experiments, newest first unless sorted otherwise."""
    with_specs = parameters.omit != "spec"
    page = experiment_page(resources, caller, parameters, with_specs=with_specs)
    return json_answer(page, headers=link_headers(request, page.next_cursor))


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
    responses={**problems(404, 409, 429), 202: {"description": "Queued.", "headers": _LOCATION}},
)
async def retry_experiment(
    *,
    request: Request,
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
        idempotency = IdempotentRequest.of(
            idempotency_key, f"POST /v1/experiments/{row.id}/retry", None
        )
        submitted = retry(resources, caller, row, idempotency)
        return _accepted(submitted, caller, resources, background)

    return await resources.loads.run(caller.project_id, answer, request=request)


def _accepted(
    submitted: Submitted, caller: Caller, resources: Resources, background: BackgroundTasks
) -> Response:
    if submitted.unit_message is not None:
        # After the answer: a broker that is away must not keep the caller waiting.
        background.add_task(dispatch_with_others, resources, submitted.unit_message)
    location = {"Location": f"/v1/experiments/{submitted.experiment.id}"}
    return json_answer(submitted_body(submitted, caller=caller), status_code=202, headers=location)


def _validation(planned: ExperimentPlan, trial: Trial) -> ValidationBody:
    return ValidationBody(
        spec=planned.spec.model_dump(mode="json"),
        spec_hash=spec_hash(planned.spec),
        parameters=planned.parameters,
        clients=planned.federation.clients,
        training_clients=planned.training_clients,
        projection=ProjectionBody(**vars(planned.projection)),
        budget=BudgetRoom(has_room=trial.refusal is None, detail=trial.refusal),
        warnings=trial.warnings,
    )
