"""Each request by name: its id, its line in the log, and its duration."""

import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, MutableMapping
from time import perf_counter
from typing import Any

import structlog
from prometheus_client import Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = structlog.get_logger()

HEADER = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9._~-]{8,64}")
"""What is taken from a client: nothing that could break a line of a log or be read as markup."""
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_OTHER = "other"
_PROBES = ("/health/", "/metrics")
"""Asked every few seconds: only failures are logged."""
_ID_PARAMETERS = ("experiment_id", "federation_id")
_DURATIONS = Histogram(
    "fedaudit_http_request_duration_seconds",
    "Seconds from a request's arrival to the beginning of its answer.",
    ("method", "route", "status"),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)


def name_request(scope: MutableMapping[str, Any], sent: str = "") -> str:
    """Give a request the id that was sent with it, if that is sane, or else a new one."""
    id_ = sent if _SANE.fullmatch(sent) else str(uuid.uuid4())
    scope.setdefault("state", {})["request_id"] = id_
    return id_


def request_id(scope: Mapping[str, Any]) -> str:
    """The id that a request was given."""
    return str(scope["state"]["request_id"])


def instance_of(scope: Mapping[str, Any]) -> str:
    """The id of a request as the URI of the problem that it met (RFC 9457, `instance`)."""
    id_ = request_id(scope)
    try:
        return uuid.UUID(id_).urn
    except ValueError:
        return f"urn:x-request-id:{id_}"


def on_start(send: Send, act: Callable[[Message], None]) -> Send:
    """Sends messages on; `act` may change the one that starts the answer."""

    async def passed(message: Message) -> None:
        if message["type"] == "http.response.start":
            act(message)
        await send(message)

    return passed


class Middleware(ABC):
    """Serves HTTP requests, and passes on everything else. Pure ASGI: streams stay streams."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        await (self.serve if scope["type"] == "http" else self._app)(scope, receive, send)

    @abstractmethod
    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""


class Observation(Middleware):
    """Names, counts and logs each request, by its route and the ids in its path. uvicorn's
    own line of the log has the query, and queries name clients: `?client=`. A request is counted
    when its answer begins: a stream that stays open is not a slow one."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = perf_counter(), 0
        id_ = name_request(scope, Headers(scope=scope).get(HEADER, ""))
        is_probe = scope["path"].startswith(_PROBES)

        def count(answered: int) -> None:
            method = scope["method"] if scope["method"] in METHODS else _OTHER
            # The template of the route, so that labels are as many as routes, whatever is asked.
            route = getattr(scope.get("route"), "path", None) or _OTHER
            if scope["path"].startswith("/v1/") and route != _OTHER:
                route = f"/v1{route}"
            labels = (method, route, f"{answered // 100}xx")
            _DURATIONS.labels(*labels).observe(perf_counter() - began)

        def noted(message: Message) -> None:
            nonlocal status
            # Counted before it is sent: a client that has the answer finds it counted.
            if not status:
                count(message["status"])
            status = message["status"]
            MutableHeaders(scope=message)[HEADER] = id_

        with structlog.contextvars.bound_contextvars(request_id=id_):
            try:
                await self._app(scope, receive, on_start(send, noted))
            except Exception:
                if not status:
                    count(500)
                raise
            finally:
                if status >= 500 or not is_probe:
                    _log(scope, status, began)


def _log(scope: Scope, status: int, began: float) -> None:
    found = scope.get("path_params", {})
    log.info(
        "request",
        method=scope["method"],
        # As it was sent: a decoded path may break the line.
        path=scope.get("raw_path", b"").decode("ascii", "backslashreplace"),
        # None where the client left before there was an answer.
        status=status or None,
        address=(scope.get("client") or ("",))[0],
        milliseconds=round(1000 * (perf_counter() - began), 1),
        **{name: str(found[name]) for name in _ID_PARAMETERS if name in found},
    )
