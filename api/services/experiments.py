"""Pages of a project's experiments, and the events of one as a stream."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any

import orjson
from fastapi.sse import ServerSentEvent
from pydantic import FiniteFloat, TypeAdapter
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from api.http.answers import decode_cursor, encode_cursor
from api.schemas.base import UtcTime
from api.schemas.experiments import (
    ExperimentBody,
    ExperimentPage,
    ExperimentParameters,
    ListedExperimentBody,
    SubmittedBody,
)
from api.services.submission import Submitted
from api.shared.data_faults import shown_detail
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.base import Text
from models.repositories import EventRepository, ExperimentRepository
from models.repositories.experiments import ENDED
from models.tables.events import Event
from models.tables.experiments import Experiment
from models.values import ExperimentFilters


def experiment_body(row: Experiment, tags: list[str], *, caller: Caller) -> ExperimentBody:
    """One experiment as the caller may see it."""
    detail = shown_detail(row.status_reason, row.status_detail, caller=caller)
    return ExperimentBody.of(row, tags, status_detail=detail)


def submitted_body(submitted: Submitted, *, caller: Caller) -> SubmittedBody:
    """An experiment that was accepted, as the caller may see it."""
    row = submitted.experiment
    detail = shown_detail(row.status_reason, row.status_detail, caller=caller)
    return SubmittedBody.accepted(row, submitted.tags, submitted.warnings, status_detail=detail)


def experiment_page(
    resources: Resources,
    caller: Caller,
    parameters: ExperimentParameters,
    *,
    with_specs: bool = True,
) -> ExperimentPage:
    """The experiments that pass the filters. Raises ProblemError for a cursor of another list."""
    route = f"experiments:{parameters.sort}"
    filters = ExperimentFilters(
        status=parameters.status,
        name=parameters.name,
        tag=parameters.tag,
        federation_id=parameters.federation_id,
        mechanism=parameters.mechanism,
        created_after=parameters.created_after,
        created_before=parameters.created_before,
        delta=parameters.delta,
        adjacency=parameters.adjacency,
        alarm=parameters.alarm,
        bounds=tuple(parameters.bounds),
    )
    cursor = decode_cursor(route, parameters.cursor, _key_of(parameters.sort))
    with resources.database.read() as session:
        experiments = ExperimentRepository(session, caller.project_id)
        page = experiments.list(
            filters, cursor=cursor, limit=parameters.limit, sort=parameters.sort
        )
        tags = experiments.tags([row.id for row in page.items])
    return ExperimentPage(
        items=[
            _listed(row, list(tags[row.id]), caller=caller, with_spec=with_specs)
            for row in page.items
        ],
        next_cursor=encode_cursor(route, page.next_cursor),
    )


def _listed(
    row: Experiment, tags: list[str], *, caller: Caller, with_spec: bool
) -> ListedExperimentBody:
    detail = shown_detail(row.status_reason, row.status_detail, caller=caller)
    body = ListedExperimentBody.of(row, tags, status_detail=detail)
    return body if with_spec else body.model_copy(update={"spec": None})


@cache
def _key_of(sort: str) -> TypeAdapter[Any]:
    """The type of the cursors of a list with this order."""
    name = sort.removeprefix("-")
    if name == "created_at":
        return TypeAdapter(tuple[Text])
    if name == "name":
        return TypeAdapter(tuple[Text, Text])
    if name in ("started_at", "finished_at"):
        return TypeAdapter(tuple[UtcTime | None, Text])
    return TypeAdapter(tuple[FiniteFloat | None, Text])


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
