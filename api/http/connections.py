"""A bounded number of connections, none of which waits for a header for ever."""

import asyncio
import resource
from http import HTTPStatus
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.http.observation import name_request
from api.http.problems import problem_response, unavailable

HEADER_SECONDS = 15.0
"""How long the header of a request may take to arrive."""
HEALTH_PLACES = 16
"""Connections beyond the bound that are answered about the process's health alone: an orchestrator
restarts what does not answer, and that frees no connection."""
_SPARE_DESCRIPTORS = 128
"""Kept for files, the database, the broker and the health's places."""


def max_connections(wanted: int) -> int:
    """The number that was wanted, or fewer where the process may not open so many files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - _SPARE_DESCRIPTORS))


def bounded_protocol(most: int) -> type[H11Protocol]:
    """uvicorn's protocol with bounds; beyond them a connection is answered 503 and closed, unless
    it asks for /health/ and has a place of those that are kept for it. uvicorn bounds requests in
    progress and connections between requests, and neither counts a connection that sends half a
    header, or nothing."""
    beyond: dict[Any, None] = {}

    class _Bounded(H11Protocol):
        _watch: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > most:
                self.app = _of_health(self.app)
                beyond[self] = None
                if len(beyond) > HEALTH_PLACES:
                    # A health check sends its request at once, and has been silent for shortest.
                    silent = next(one for one in beyond if not one._answering())
                    silent.transport.write(_too_many())
                    silent.transport.close()
                    del beyond[silent]
            self._watch_header()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_header()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            beyond.pop(self, None)
            super().connection_lost(exc)

        def _watch_header(self) -> None:
            """A request in progress has other limits; the next header has not begun."""
            if self._answering():
                self._unwatch()
            elif self._watch is None:
                self._watch = self.loop.call_later(HEADER_SECONDS, self._give_up)

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


def _of_health(app: ASGIApp) -> ASGIApp:
    """The application for a connection too many: what is not about health is refused."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        about_health = scope.get("path", "").startswith("/health/")
        await (app if about_health else _refusal())(scope, receive, send)

    return answer


def _refusal() -> Response:
    """The answer to a connection too many, which also ends it."""
    scope: dict[str, Any] = {}
    name_request(scope)
    error = unavailable("there are too many connections", retry_seconds=5)
    response = problem_response(error, scope)
    response.headers["Connection"] = "close"
    return response


def _too_many() -> bytes:
    """The bytes of that answer."""
    response = _refusal()
    head = [
        f"HTTP/1.1 {response.status_code} {HTTPStatus(response.status_code).phrase}".encode(),
        *(name + b": " + value for name, value in response.raw_headers),
    ]
    return b"\r\n".join(head) + b"\r\n\r\n" + bytes(response.body)
