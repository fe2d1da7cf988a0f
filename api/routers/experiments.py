"""Submit, find and end experiments, and follow their events."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

import orjson
import structlog
from fastapi import Depends, Header, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from api.http.answers import SmallInteger, json_answer, sorted_key_type
from api.openapi import Router, located, problems, query_parameters, request_body
from api.schemas.base import UtcTime, of_row
from api.schemas.experiments import (
    ExperimentBody,
    ExperimentPage,
    ExperimentParameters,
    SubmissionParameters,
    SubmittedBody,
    ValidationBody,
)
from api.services.admission import parse_inherited
from api.services.dispatch import Repeating, Submission, Submitting
from api.services.lookups import find_experiment, list_page
from api.services.submission import Submitted, cancel, plan_seeds, retry, submit, try_admission
from api.shared.data_faults import shown_detail
from api.shared.security import Call, Caller, ExperimentsReader, ExperimentsWriter
from fedaudit.spec.experiment import ExperimentSpec, spec_hash
from models.database import AWAY, outage
from models.repositories import EventRepository, ExperimentRepository
from models.repositories.experiments import FILTERS
from models.tables.experiments import Event, Experiment
from models.values import ENDED

router = Router(prefix="/experiments", tags=["experiments"])
events_router = Router(prefix="/experiments", tags=["events"])


@router.post(
    "",
    status_code=202,
    response_model=SubmittedBody,
    responses={
        **problems(409),
        200: {"model": ValidationBody, "description": "Valid; nothing was stored."},
        **located(202, "Queued.", "experiment"),
    },
    openapi_extra=request_body(ExperimentSpec),
)
async def submit_experiment(call: Submitting, parameters: SubmissionParameters) -> Response:
    """Queue the experiment that a spec asks for, and reserve what it may cost."""

    def validate() -> JSONResponse:
        plans = plan_seeds(call, parse_inherited(call, call.value))
        planned, trial = plans[0], try_admission(call, plans)
        found = of_row(
            ValidationBody,
            planned,
            spec=planned.spec.model_dump(mode="json"),
            spec_hash=spec_hash(planned.spec),
            clients=planned.federation.clients,
            budget={"has_room": trial.refusal is None, "detail": trial.refusal},
            warnings=trial.warnings,
        )
        return JSONResponse(found.model_dump(mode="json"))

    def queue() -> Response:
        return _accepted(submit(call, call.value, call.idempotency), call)

    return await call.run(validate if parameters.validate_only else queue)


@router.get("", response_model=ExperimentPage, openapi_extra=query_parameters(ExperimentParameters))
def list_experiments(
    call: ExperimentsReader,
    parameters: Annotated[ExperimentParameters, Depends(ExperimentParameters.of_query)],
) -> Response:
    """The project's experiments, newest first unless sorted otherwise."""
    return json_answer(experiment_page(call, parameters))


@router.get("/{experiment_id}")
def get_experiment(experiment_id: str, call: ExperimentsReader) -> ExperimentBody:
    """One experiment."""
    row = call.find(find_experiment, experiment_id)
    return experiment_body(row, caller=call.caller)


@router.post("/{experiment_id}/cancel", responses=problems(409))
def cancel_experiment(experiment_id: str, call: ExperimentsWriter) -> ExperimentBody:
    """Ask for an end: `cancelled` at once where no worker has it, else `cancelling` until then."""
    return experiment_body(cancel(call, experiment_id), caller=call.caller)


@router.post(
    "/{experiment_id}/retry",
    status_code=202,
    response_model=SubmittedBody,
    responses=problems(409) | located(202, "Queued.", "experiment"),
)
async def retry_experiment(experiment_id: str, call: Repeating) -> Response:
    """Queue the spec of a failed or cancelled experiment again, as a new experiment."""

    def answer() -> Response:
        row = call.find(find_experiment, experiment_id)
        return _accepted(retry(call, row, call.idempotency), call)

    return await call.run(answer)


def _accepted(submitted: Submitted, call: Submission) -> Response:
    row = call.accepting.of(call, submitted, f"/v1/experiments/{submitted.row.id}")
    detail = shown_detail(row.status_reason, row.status_detail, caller=call.caller)
    body = SubmittedBody.of(row, status_detail=detail, warnings=submitted.warnings)
    return json_answer(body, status_code=202, headers=call.accepting.response.headers)


def experiment_body(row: Experiment, *, caller: Caller) -> ExperimentBody:
    """One experiment as the caller may see it."""
    detail = shown_detail(row.status_reason, row.status_detail, caller=caller)
    return ExperimentBody.of(row, status_detail=detail)


def experiment_page(call: Call, parameters: ExperimentParameters) -> ExperimentPage:
    """The experiments that pass the filters. Raises ProblemError for a cursor of another list."""
    filters, bounds = parameters.of(FILTERS), parameters.bounds
    key = sorted_key_type(parameters.sort_key, UtcTime, "started_at", "finished_at")
    with call.reading() as session:
        experiments = ExperimentRepository(session, call.project_id)
        return list_page(
            ExperimentPage,
            f"experiments:{parameters.sort}",
            parameters,
            partial(experiments.list, filters, bounds=bounds, sort=parameters.sort),
            partial(map, partial(experiment_body, caller=call.caller)),
            key=key,
        )


_BATCH = 500
_PAUSE_SECONDS = 0.25
_READS_A_SECOND = 80.0
"""Polls of all streams of this process together: with many streams each polls less often."""


def _after(call: Call, experiment_id: str, sequence: int) -> tuple[list[Event], bool]:
    """Events above a number, and whether the experiment, or the reader's permission, had ended
    before they were read. In that order nothing is missed: the last event is stored together with
    the end. A stream can outlive a key that is revoked, or a session."""
    with call.reading() as session:
        if not call.caller.is_in_force(session):
            return [], True
        row = ExperimentRepository(session, call.project_id).get(experiment_id)
        ended = row is None or row.status in ENDED
        events = EventRepository(session, call.project_id)
        return events.after(experiment_id, sequence, _BATCH), ended


def _found(experiment_id: str, call: ExperimentsReader) -> Call:
    call.find(find_experiment, experiment_id)
    return call


async def _place(call: ExperimentsReader) -> AsyncIterator[None]:
    async with call.resources.streams.place(call.caller.key_id):
        yield


@events_router.get(
    "/{experiment_id}/events", response_class=EventSourceResponse, dependencies=[Depends(_place)]
)
async def follow_events(
    experiment_id: str,
    call: Annotated[Call, Depends(_found)],
    last_event_id: Annotated[
        SmallInteger, Header(description="Events up to this number are left out.")
    ] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """Events as they happen, and those before, until the experiment has ended.

    `id` counts from 1 within the experiment. A comment is sent where nothing happens for 15 s.
    """
    resources = call.resources
    while not resources.stopping.is_set():
        try:
            events, ended = await run_in_threadpool(_after, call, experiment_id, last_event_id)
        except AWAY as error:
            structlog.get_logger().error("database away", **outage(error))
            return  # its reader connects again
        for event in events:
            data = orjson.dumps({**event.data, "at": event.created_at.isoformat()}).decode()
            yield ServerSentEvent(event=event.type, id=str(event.sequence), raw_data=data)
            last_event_id = event.sequence
        if ended and len(events) < _BATCH:
            return
        if not events:
            await asyncio.sleep(max(_PAUSE_SECONDS, resources.streams.open / _READS_A_SECOND))
