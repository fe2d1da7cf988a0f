"""Server-sent events as the WHATWG HTML standard (section 9.2) has them."""

import json
from collections.abc import Iterable, Iterator, Mapping
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
    """`status.changed`, `round.completed`, `gate.evaluated` or `alarm.raised`."""
    data: Mapping[str, Any]

    @property
    def is_last(self) -> bool:
        """Whether the experiment has ended with this event."""
        return self.type == "status.changed" and self.data.get("status") in ENDED


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """The complete lines of a UTF-8 stream, however it was cut; an unfinished one is left out.

    Only line feeds end a line: JSON text may hold other characters that Unicode breaks lines at.
    """
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8")


def parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """The events in the lines of a stream; comments are passed over.

    An event that the stream breaks off is not given: it comes again after reconnecting. Raises
    ValueError for an id that is no number, or data that is not a JSON object.
    """
    fields: dict[str, list[str]] = {}
    for line in lines:
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
