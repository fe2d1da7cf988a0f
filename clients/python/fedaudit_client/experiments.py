"""Calls on experiments, their events, and sweeps."""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import httpx

from fedaudit_client.errors import ClientError, ProblemError, UnreachableError
from fedaudit_client.wire import Calls, Items, Json, Patience, json_with, once, path_of

_TRIAL: dict[str, Any] = {"params": {"validate_only": "true"}, "repeatable": True}
"""What makes a submission a check of it."""
ENDED = ("cancelled", "succeeded", "failed")
"""The final statuses of an experiment."""


@dataclass(frozen=True)
class Event:
    """One event of an experiment."""

    id: int
    """Counts from 1 within the experiment."""
    type: str
    """`status.changed`, `round.completed`, `gate.evaluated`, `alarm.raised`, or one of an attack:
    `attack.started`, `attack.stopped`, `attack.completed`."""
    data: Mapping[str, Any]

    @property
    def is_last(self) -> bool:
        """Whether the experiment has ended with this event."""
        return self.type == "status.changed" and self.data.get("status") in ENDED


def whole_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """The complete lines of a UTF-8 stream, however it is cut; an unfinished one is left out.

    Only line feeds end a line: JSON text may contain other line breaks of Unicode.
    """
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line.removesuffix(b"\r").decode("utf-8") for line in lines)


def events_in(chunks: Iterable[bytes]) -> Iterator[Event]:
    """The server-sent events of a stream (WHATWG HTML, section 9.2); comments are ignored.

    An unfinished event is left out: the service sends it again after reconnecting. Raises
    ValueError for an id that is not a number, or data that is not a JSON object.
    """
    fields: dict[str, list[str]] = {}
    for line in whole_lines(chunks):
        if line:
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
            continue
        if "data" in fields:
            yield _event(fields)
        fields = {}


def _event(fields: Mapping[str, list[str]]) -> Event:
    data = json.loads("\n".join(fields["data"]))
    if not isinstance(data, dict):
        raise ValueError(f"an event's data must be a JSON object; it is {data!r:.100}")
    return Event(int(fields.get("id", ["0"])[-1]), fields.get("event", ["message"])[-1], data)


# The service plans and reserves every cell before it answers.
_PLANNED = httpx.Timeout(30.0, read=600.0)


class ExperimentCalls(Calls):
    """Calls on experiments and sweeps."""

    def submit(self, spec: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Queue an experiment; returns it.

        Repeated after a lost answer: the key, generated unless given, prevents a second experiment.
        """
        return self._posted("experiments", json=spec, **once(idempotency_key))

    def project(self, spec: Mapping[str, Any]) -> Json:
        """What an experiment would cost; nothing is stored."""
        return self._posted("experiments", json=spec, **_TRIAL)

    def get(self, experiment_id: str) -> Json:
        """One experiment."""
        return self._got("experiments/{}", experiment_id)

    def list(self, *, limit: int | None = None, **filters: Any) -> Items:
        """Every experiment that the filters select, page after page, newest first.

        The filters are the service's query parameters; bounds as `**{"leakage_max[lte]": 40}`.
        """
        return self.items("experiments", limit=limit, **filters)

    def cancel(self, experiment_id: str) -> Json:
        """Cancel an experiment; returns it."""
        return self._posted("experiments/{}/cancel", experiment_id)

    def retry(self, experiment_id: str, *, idempotency_key: str | None = None) -> Json:
        """Queue the spec of a failed or cancelled experiment again; returns the new experiment."""
        return self._posted("experiments/{}/retry", experiment_id, **once(idempotency_key))

    def watch(
        self, experiment_id: str, *, after: int = 0, patience_seconds: float = 60.0
    ) -> Generator[Event, None, None]:
        """The experiment's events above number `after`, as they happen, until it ends.

        Reconnects after a broken connection and after 429 and 503, once the time that the service
        asks for is over. Raises UnreachableError after `patience_seconds` without the service, and
        ProblemError if the service asks for a longer pause.
        """
        patience, ended = Patience(patience_seconds), False
        while True:
            first = after
            failure: ClientError | None = None
            try:
                with closing(self._one_stream(experiment_id, after)) as events:
                    for event in events:
                        after = event.id
                        patience.answered(news=True)
                        yield event
                        if event.is_last:
                            return
                if ended and after == first:
                    return
                # The stream ended without a last event: either that one is not above `after`, or
                # the service is stopping, and another stream has the rest.
                path = path_of("experiments/{}", experiment_id)
                ended = self._send("GET", path, json_with("status"))["status"] in ENDED
                patience.answered()
                if ended:
                    continue
            except (UnreachableError, ProblemError) as error:
                failure = error
            patience.pause(failure)

    def _one_stream(self, experiment_id: str, after: int) -> Generator[Event, None, None]:
        path = path_of("experiments/{}/events", experiment_id)
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        # The service sends a comment every 15 seconds if nothing happens.
        silence = httpx.Timeout(10.0, read=45.0)
        with self._opened("GET", path, headers=headers, timeout=silence) as chunks:
            try:
                yield from events_in(chunks)
            except ValueError as error:
                where = f"{self.url}/v1/{path}"
                raise UnreachableError(
                    f"{where} sends no events of this service: {error}", is_temporary=False
                ) from None

    def wait(self, experiment_id: str, *, patience_seconds: float = 60.0) -> Json:
        """The experiment, once it has ended; `patience_seconds` as for `watch`."""
        for _ in self.watch(experiment_id, patience_seconds=patience_seconds):
            pass
        return self.get(experiment_id)

    def submit_sweep(self, sweep: Mapping[str, Any], *, idempotency_key: str | None = None) -> Json:
        """Queue an experiment for every combination of values; all are admitted, or none is.

        Repeated after a lost answer, as `submit` is.
        """
        return self._posted("sweeps", json=sweep, timeout=_PLANNED, **once(idempotency_key))

    def project_sweep(self, sweep: Mapping[str, Any]) -> Json:
        """What all cells would cost together, and whether budgets have room; nothing is stored."""
        return self._posted("sweeps", json=sweep, timeout=_PLANNED, **_TRIAL)

    def sweep(self, sweep_id: str) -> Json:
        """One sweep: its cells, progress and total cost."""
        return self._got("sweeps/{}", sweep_id)

    def sweep_table(self, sweep_id: str) -> Json:
        """A row for each combination: figures over seeds, which is best, and how surely."""
        return self._got("sweeps/{}/table", sweep_id)

    def watch_sweep(self, sweep_id: str, *, patience_seconds: float = 60.0) -> Items:
        """The sweep as it is now, and every few seconds again until all cells have ended.

        Raises UnreachableError, or ProblemError, after `patience_seconds` without the service.
        """
        return self._polled("sweeps/{}", sweep_id, until=ENDED, patience_seconds=patience_seconds)

    def wait_sweep(self, sweep_id: str, *, patience_seconds: float = 60.0) -> Json:
        """The sweep, once all cells have ended; `patience_seconds` as for `watch_sweep`."""
        return self._awaited("sweeps/{}", sweep_id, until=ENDED, patience_seconds=patience_seconds)
