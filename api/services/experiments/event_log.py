"""The events of one experiment as a stream, from the stored ones until it has ended."""

import asyncio
from collections.abc import AsyncIterator, Callable

import orjson
from fastapi.sse import ServerSentEvent
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from api.shared.resources import Resources
from models.repositories import EventRepository, ExperimentRepository
from models.repositories.experiments import ENDED
from models.tables.experiments import Event

_BATCH = 500
_PAUSE_SECONDS = 0.25
_READS_A_SECOND = 80.0
"""For all streams of this process together: with many streams each polls less often."""


class EventLog:
    """The events of one experiment, read in batches by short transactions.

    `in_force`: whether the reader may still read; checked with every batch, because a stream can
    outlive a key that is revoked or a session that ends.
    """

    def __init__(
        self,
        resources: Resources,
        project_id: str,
        experiment_id: str,
        *,
        in_force: Callable[[Session], bool],
    ) -> None:
        self._resources = resources
        self._project_id = project_id
        self._experiment_id = experiment_id
        self._in_force = in_force

    async def follow(self, last_event_id: int) -> AsyncIterator[ServerSentEvent]:
        """The events above a number, until the experiment or the reader's permission has ended.

        The stream also ends when the service is about to stop.
        """
        resources = self._resources
        while not resources.stopping.is_set():
            events, ended = await run_in_threadpool(self._after, last_event_id)
            for event in events:
                yield _message(event)
                last_event_id = event.sequence
            if ended and len(events) < _BATCH:
                return
            if not events:
                await asyncio.sleep(pause_seconds(resources.streams.open))

    def _after(self, sequence: int) -> tuple[list[Event], bool]:
        """Events above a number, and whether the experiment had ended before they were read.

        In that order nothing is missed: the last event is stored together with the end.
        """
        with self._resources.database.read() as session:
            if not self._in_force(session):
                return [], True
            row = ExperimentRepository(session, self._project_id).get(self._experiment_id)
            ended = row is None or row.status in ENDED
            events = EventRepository(session, self._project_id)
            return events.after(self._experiment_id, sequence, _BATCH), ended


def pause_seconds(streams: int) -> float:
    """How long each of this many streams waits before it polls for events again."""
    return max(_PAUSE_SECONDS, streams / _READS_A_SECOND)


def _message(event: Event) -> ServerSentEvent:
    data = {**event.data, "at": event.created_at.isoformat()}
    return ServerSentEvent(
        event=event.type, id=str(event.sequence), raw_data=orjson.dumps(data).decode()
    )
