"""What happens to an experiment, as it happens."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from api.cursors import SmallInteger
from api.openapi import problems
from api.resources import Resources, Shared
from api.security import ExperimentsReader
from api.services.lookups import find_experiment
from models.repositories import EventRepository, ExperimentRepository
from models.repositories.experiments import ENDED
from models.tables.events import Event

router = APIRouter(prefix="/experiments", tags=["events"])

_BATCH = 500
_PAUSE_SECONDS = 0.25


class EventLog:
    """The events of one experiment, read in batches by short transactions."""

    def __init__(self, resources: Resources, project_id: str, experiment_id: str) -> None:
        self._resources = resources
        self._project_id = project_id
        self._experiment_id = experiment_id

    @property
    def stopping(self) -> bool:
        """Whether the service is about to end."""
        return self._resources.stopping.is_set()

    def after(self, sequence: int) -> tuple[list[Event], bool]:
        """Events above a number, and whether the experiment had ended before they were read.

        In that order nothing is missed: the last event is stored together with the end.
        """
        with self._resources.database.read() as session:
            row = ExperimentRepository(session, self._project_id).get(self._experiment_id)
            ended = row is None or row.status in ENDED
            events = EventRepository(session, self._project_id)
            return events.after(self._experiment_id, sequence, _BATCH), ended


def _event_log(experiment_id: str, caller: ExperimentsReader, resources: Shared) -> EventLog:
    with resources.database.read() as session:
        found = find_experiment(session, caller, experiment_id)
    return EventLog(resources, caller.project_id, found.id)


@router.get("/{experiment_id}/events", response_class=EventSourceResponse, responses=problems(404))
async def follow_events(
    log: Annotated[EventLog, Depends(_event_log)],
    last_event_id: Annotated[
        SmallInteger, Header(description="Events up to this number are left out.")
    ] = 0,
) -> AsyncIterator[ServerSentEvent]:
    """Events as they happen, and those before, until the experiment has ended.

    `id` counts from 1 within the experiment. A comment is sent where nothing happens for 15 s.
    """
    while not log.stopping:
        events, ended = await run_in_threadpool(log.after, last_event_id)
        for event in events:
            yield _message(event)
            last_event_id = event.sequence
        if ended and len(events) < _BATCH:
            return
        if not events:
            await asyncio.sleep(_PAUSE_SECONDS)


def _message(event: Event) -> ServerSentEvent:
    data = {**event.data, "at": event.created_at.isoformat()}
    return ServerSentEvent(
        event=event.type, id=str(event.sequence), raw_data=orjson.dumps(data).decode()
    )
