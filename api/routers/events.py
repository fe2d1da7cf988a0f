"""What happens to an experiment, as it happens."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent

from api.http.cursors import SmallInteger
from api.openapi import problems
from api.services.base.lookups import find_experiment
from api.services.experiments.event_log import EventLog
from api.shared.resources import Shared
from api.shared.security import ExperimentsReader
from models.repositories import ApiKeyRepository

router = APIRouter(prefix="/experiments", tags=["events"])


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


@router.get(
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
