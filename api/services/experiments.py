"""Pages of a project's experiments, and the events of one as a stream."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial

import orjson
from fastapi.sse import ServerSentEvent
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from api.http.answers import sorted_key_type
from api.schemas.base import UtcTime
from api.schemas.experiments import (
    ExperimentBody,
    ExperimentPage,
    ExperimentParameters,
    SubmittedBody,
)
from api.services.lookups import list_page
from api.services.submission import Submitted
from api.shared.data_faults import shown_detail
from api.shared.resources import Resources
from api.shared.security import Call, Caller
from models.repositories import EventRepository, ExperimentRepository
from models.tables.experiments import Event, Experiment
from models.values import ExperimentFilters
from models.vocabulary import ENDED

_BATCH = 500
_PAUSE_SECONDS = 0.25
_READS_A_SECOND = 80.0
"""For all streams of this process together: with many streams each polls less often."""


def experiment_body(row: Experiment, *, caller: Caller) -> ExperimentBody:
    """One experiment as the caller may see it."""
    detail = shown_detail(row.status_reason, row.status_detail, caller=caller)
    return ExperimentBody.of(row, status_detail=detail)


def submitted_body(submitted: Submitted, *, caller: Caller) -> SubmittedBody:
    """An experiment that was accepted, as the caller may see it."""
    row = submitted.experiment
    detail = shown_detail(row.status_reason, row.status_detail, caller=caller)
    return SubmittedBody.of(row, status_detail=detail, warnings=submitted.warnings)


def experiment_page(call: Call, parameters: ExperimentParameters) -> ExperimentPage:
    """The experiments that pass the filters. Raises ProblemError for a cursor of another list."""
    names = ExperimentFilters.__dataclass_fields__.keys() - {"bounds"}
    filters = ExperimentFilters(
        **{name: getattr(parameters, name) for name in names}, bounds=tuple(parameters.bounds)
    )
    sort = parameters.sort.removeprefix("-")
    key = sorted_key_type(sort, UtcTime, "started_at", "finished_at")
    with call.reading() as session:
        experiments = ExperimentRepository(session, call.project_id)
        return list_page(
            ExperimentPage,
            f"experiments:{parameters.sort}",
            parameters,
            partial(experiments.list, filters, sort=parameters.sort),
            partial(map, partial(experiment_body, caller=call.caller)),
            key=key,
        )


@dataclass(frozen=True)
class EventLog:
    """The events of one experiment, read in batches by short transactions."""

    resources: Resources
    project_id: str
    experiment_id: str
    in_force: Callable[[Session], bool]
    """Whether the reader may still read; checked with every batch, because a stream can outlive a
    key that is revoked or a session that ends."""

    async def follow(self, last_event_id: int) -> AsyncIterator[ServerSentEvent]:
        """The events above a number, until the experiment or the reader's permission has ended. The
        stream also ends when the service is about to stop."""
        resources = self.resources
        while not resources.stopping.is_set():
            events, ended = await run_in_threadpool(self._after, last_event_id)
            for event in events:
                yield _message(event)
                last_event_id = event.sequence
            if ended and len(events) < _BATCH:
                return
            if not events:
                await asyncio.sleep(max(_PAUSE_SECONDS, resources.streams.open / _READS_A_SECOND))

    def _after(self, sequence: int) -> tuple[list[Event], bool]:
        """Events above a number, and whether the experiment had ended before they were read. In
        that order nothing is missed: the last event is stored together with the end."""
        with self.resources.database.read() as session:
            if not self.in_force(session):
                return [], True
            row = ExperimentRepository(session, self.project_id).get(self.experiment_id)
            ended = row is None or row.status in ENDED
            events = EventRepository(session, self.project_id)
            return events.after(self.experiment_id, sequence, _BATCH), ended


def _message(event: Event) -> ServerSentEvent:
    data = {**event.data, "at": event.created_at.isoformat()}
    return ServerSentEvent(
        event=event.type, id=str(event.sequence), raw_data=orjson.dumps(data).decode()
    )
