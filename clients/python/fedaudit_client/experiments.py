"""Calls on experiments: submit, look at, follow, end."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from time import monotonic
from typing import Any

import httpx

from fedaudit_client.errors import ProblemError, UnreachableError
from fedaudit_client.events import ENDED, Event, EventReader
from fedaudit_client.http.calls import Calls, call, pages, steps, stream
from fedaudit_client.http.request import Request, experiment_path, json_as, nothing, once
from fedaudit_client.http.wire import Wire
from fedaudit_client.result_types import Experiment, Submitted, Validation

# The service sends a comment every 15 seconds where nothing happens.
_SILENCE = httpx.Timeout(10.0, read=45.0)
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.2, 5.0


class ExperimentCalls(Calls):
    """What can be done with experiments."""

    @call
    def submit(
        self, spec: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Request[Submitted]:
        """Queue an experiment; the answer is the experiment.

        Tried again where no answer comes: a key, made here unless given, keeps it from being
        queued twice.
        """
        body = {"json": spec}
        answer = json_as(Submitted)
        return Request("POST", "experiments", answer, body=body, **once(idempotency_key))

    @call
    def project(self, spec: Mapping[str, Any]) -> Request[Validation]:
        """What an experiment would cost; nothing is stored."""
        return Request(
            "POST",
            "experiments",
            json_as(Validation),
            params={"validate_only": "true"},
            body={"json": spec},
            repeatable=True,
        )

    @call
    def get(self, experiment_id: str) -> Request[Experiment]:
        """One experiment."""
        return _one(experiment_id)

    @stream
    def list(self, /, **filters: Any) -> AsyncGenerator[Experiment, None]:
        """Every experiment that the filters let through, page after page, newest first.

        The filters are the service's query parameters; bounds as `**{"leakage_max[lte]": 40}`.
        """
        return pages(self._wire, "experiments", filters, Experiment)

    @call
    def cancel(self, experiment_id: str) -> Request[Experiment]:
        """Ask for an end; the answer is the experiment as it then is."""
        return Request("POST", f"{experiment_path(experiment_id)}/cancel", json_as(Experiment))

    @call
    def retry(
        self, experiment_id: str, *, idempotency_key: str | None = None
    ) -> Request[Submitted]:
        """Queue a failed or cancelled experiment's spec again; the answer is the new one."""
        path = f"{experiment_path(experiment_id)}/retry"
        return Request("POST", path, json_as(Submitted), **once(idempotency_key))

    @stream
    def watch(
        self, experiment_id: str, *, after: int = 0, patience_seconds: float = 60.0
    ) -> AsyncGenerator[Event, None]:
        """The experiment's events above number `after`, as they happen, until it ends.

        A broken connection is taken up again where it was left. So is a stream for which the
        service has no place, or that it cannot serve just now (429, 503), once the time that it
        names is over. Raises UnreachableError after `patience_seconds` without the service, and
        ProblemError where a place would take longer.
        """
        return _events(self._wire, experiment_id, after, patience_seconds)

    @steps
    async def wait(self, experiment_id: str, *, patience_seconds: float = 60.0) -> Experiment:
        """The experiment, once it has ended; `patience_seconds` as of `watch`."""
        async for _ in _events(self._wire, experiment_id, 0, patience_seconds):
            pass
        return await self._wire.send(_one(experiment_id))


def _one(experiment_id: str) -> Request[Experiment]:
    return Request("GET", experiment_path(experiment_id), json_as(Experiment))


async def _events(
    wire: Wire, experiment_id: str, after: int, patience_seconds: float
) -> AsyncGenerator[Event, None]:
    heard, wait, ended = monotonic(), _FIRST_WAIT_SECONDS, False
    while True:
        first, asked = after, 0.0
        try:
            async with aclosing(_one_stream(wire, experiment_id, after)) as events:
                async for event in events:
                    after, heard, wait = event.id, monotonic(), _FIRST_WAIT_SECONDS
                    yield event
                    if event.is_last:
                        return
            if ended and after == first:
                return
            # The stream ended well without a last event: that one came before `after`, or the
            # service is stopping, and another stream has the rest.
            ended = (await wire.send(_one(experiment_id)))["status"] in ENDED
            heard = monotonic()
            if ended:
                continue
        except UnreachableError:
            if monotonic() - heard > patience_seconds:
                raise
        except ProblemError as error:
            asked = error.retry_after_seconds or 0.0
            if not error.is_temporary or monotonic() + asked - heard > patience_seconds:
                raise
        await wire.pause(max(wait, asked))
        wait = min(2 * wait, _MAX_WAIT_SECONDS)


async def _one_stream(wire: Wire, experiment_id: str, after: int) -> AsyncGenerator[Event, None]:
    path = f"{experiment_path(experiment_id)}/events"
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
    request = Request("GET", path, nothing, headers=headers, timeout=_SILENCE)
    reader = EventReader()
    async with wire.opened(request) as chunks:
        async for chunk in chunks:
            try:
                events = reader.read(chunk)
            except ValueError as error:
                where = f"{wire.connection.url}/v1/{path}"
                raise UnreachableError(
                    f"{where} sends no events of this service: {error}", is_temporary=False
                ) from None
            for event in events:
                yield event
