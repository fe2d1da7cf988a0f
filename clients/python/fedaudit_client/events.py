"""Server-sent events as the WHATWG HTML standard (section 9.2) has them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ENDED = ("cancelled", "succeeded", "failed")
"""The statuses after which nothing more happens to an experiment."""


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


class LineReader:
    """The complete lines of a UTF-8 stream, however it is cut; an unfinished one is left out.

    Only line feeds end a line: JSON text may hold other characters that Unicode breaks lines at.
    """

    def __init__(self) -> None:
        self._rest = b""

    def read(self, chunk: bytes) -> list[str]:
        """The lines that end in this part of the stream."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [line.removesuffix(b"\r").decode("utf-8") for line in lines]


class EventReader:
    """The events of a stream; comments are passed over.

    An event that the stream breaks off is not given: it comes again after reconnecting.
    """

    def __init__(self) -> None:
        self._lines = LineReader()
        self._fields: dict[str, list[str]] = {}

    def read(self, chunk: bytes) -> list[Event]:
        """The events that end in this part of the stream.

        Raises ValueError for an id that is no number, or data that is not a JSON object.
        """
        found = []
        for line in self._lines.read(chunk):
            if line:
                name, _, value = line.partition(":")
                self._fields.setdefault(name, []).append(value.removeprefix(" "))
                continue
            if "data" in self._fields:
                found.append(_event(self._fields))
            self._fields = {}
        return found


def _event(fields: Mapping[str, list[str]]) -> Event:
    data = json.loads("\n".join(fields["data"]))
    if not isinstance(data, dict):
        raise ValueError(f"an event's data must be a JSON object; it is {data!r:.100}")
    return Event(int(fields.get("id", ["0"])[-1]), fields.get("event", ["message"])[-1], data)
