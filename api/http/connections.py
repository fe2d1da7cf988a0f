"""Connections that one process keeps: so many, and none that never says what it wants.

uvicorn bounds requests in progress and connections between requests; neither sees a connection that
sends half a header, or nothing.
"""

import asyncio
import resource
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.http.problems import ProblemError, problem_response
from api.http.request_ids import name_request

HEADER_SECONDS = 15.0
"""Within so long the header of a request is whole."""
_SPARE_DESCRIPTORS = 128
"""Kept for files, the database and the broker."""


def max_connections(wanted: int) -> int:
    """The number that was wanted, or fewer where the process may not open so many files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - _SPARE_DESCRIPTORS))


def bounded_protocol(most: int, *, header_seconds: float = HEADER_SECONDS) -> type[H11Protocol]:
    """uvicorn's protocol with these bounds; beyond them a connection is answered 503 and closed."""

    class _Bounded(H11Protocol):
        _watch: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.write(_full())
                transport.close()
            else:
                self._watch_header()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_header()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            super().connection_lost(exc)

        def _watch_header(self) -> None:
            """A request in progress has limits of its own; the next header has not begun."""
            if self._answering():
                self._unwatch()
            elif self._watch is None:
                self._watch = self.loop.call_later(header_seconds, self._give_up)

        def _give_up(self) -> None:
            self._watch = None
            if not self._answering():
                self.transport.close()

        def _unwatch(self) -> None:
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None

        def _answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

    return _Bounded


def _raw(response: Response) -> bytes:
    """The bytes of an answer that also ends its connection."""
    head = [
        f"HTTP/1.1 {response.status_code} {HTTPStatus(response.status_code).phrase}".encode(),
        *(name + b": " + value for name, value in response.raw_headers),
        b"connection: close",
    ]
    return b"\r\n".join(head) + b"\r\n\r\n" + bytes(response.body)


def _full() -> bytes:
    """What a connection too many is answered, before it has said what it wants."""
    nothing_asked: dict[str, Any] = {}
    name_request(nothing_asked)
    error = ProblemError(
        503, "unavailable", "there are too many connections", headers={"Retry-After": "5"}
    )
    return _raw(problem_response(error, nothing_asked))
