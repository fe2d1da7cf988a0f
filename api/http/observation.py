"""Each request by name: its id, its line in the log, its span, and its duration."""

import os
import re
import uuid
from collections.abc import Mapping, MutableMapping
from time import perf_counter
from typing import Any

import structlog
from prometheus_client import REGISTRY, CollectorRegistry, Histogram
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infrastructure.tracing import current_traceparent, span, trace_id_of

HEADER = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9._~-]{8,64}")
"""What is taken from a client: nothing that could break a line of a log or stand for markup."""


class RequestIds:
    """Gives each request the id that its client sent, where that is sane, or else a new one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = Headers(scope=scope).get(HEADER, "")
        id_ = name_request(scope, sent)

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = id_
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=id_):
            await self._app(scope, receive, with_id)


def name_request(scope: MutableMapping[str, Any], sent: str = "") -> str:
    """Give a request the id that was sent with it, if that is sane, or else a new one."""
    id_ = sent if _SANE.fullmatch(sent) else str(uuid.uuid4())
    scope.setdefault("state", {})["request_id"] = id_
    return id_


def request_id(scope: Mapping[str, Any]) -> str:
    """The id that a request was given."""
    return str(scope["state"]["request_id"])


def instance_of(scope: Mapping[str, Any]) -> str:
    """The id of a request as the URI of what happened to it (RFC 9457, `instance`)."""
    id_ = request_id(scope)
    try:
        return uuid.UUID(id_).urn
    except ValueError:
        return f"urn:x-request-id:{id_}"


_METHODS = frozenset(("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"))
_OTHER = "other"


def method_of(scope: Mapping[str, Any]) -> str:
    """The method, or one word for all that there are not."""
    return scope["method"] if scope["method"] in _METHODS else _OTHER


def route_of(scope: Mapping[str, Any]) -> str:
    """The template of the route; its number of values is that of the routes, whatever is asked."""
    path = getattr(scope.get("route"), "path", None)
    if path is None:
        return _OTHER
    return f"/v1{path}" if scope["path"].startswith("/v1/") else str(path)


NAME = "fedaudit_http_request_duration_seconds"
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder; read by prometheus_client when it is imported."""
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

_DURATIONS = Histogram(
    NAME,
    "Seconds from a request's arrival to the beginning of its answer.",
    ("method", "route", "status"),
    buckets=_BUCKETS,
)


class RequestMetrics:
    """Counts every request when its answer begins: a stream that stays open is not a slow one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answered = perf_counter(), False

        def count(status: int) -> None:
            nonlocal answered
            answered = True
            labels = (method_of(scope), route_of(scope), f"{status // 100}xx")
            _DURATIONS.labels(*labels).observe(perf_counter() - began)

        async def counted(message: Message) -> None:
            # Before it is sent: whoever has the answer finds it counted.
            if message["type"] == "http.response.start" and not answered:
                count(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception:
            if not answered:
                count(500)
            raise


def request_registry() -> CollectorRegistry:
    """The figures of this process, or of all that share its port."""
    if SHARED_FOLDER not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


log = structlog.get_logger()

_OF_PROBES = ("/health/", "/metrics")
"""Asked every few seconds: only failures are logged."""
_ID_PARAMETERS = ("experiment_id", "federation_id")


class AccessLog:
    """Logs each request once its answer has ended, with the ids in its path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = perf_counter(), 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            if status >= 500 or not scope["path"].startswith(_OF_PROBES):
                log.info(
                    "request",
                    method=scope["method"],
                    # As it was sent: a decoded one may break the line.
                    path=scope.get("raw_path", b"").decode("ascii", "backslashreplace"),
                    # None where the client left before there was an answer.
                    status=status or None,
                    address=(scope.get("client") or ("",))[0],
                    milliseconds=round(1000 * (perf_counter() - began), 1),
                    **_ids(scope),
                )


def _ids(scope: Scope) -> dict[str, str]:
    found = scope.get("path_params", {})
    return {name: str(found[name]) for name in _ID_PARAMETERS if name in found}


class Traces:
    """Names spans by the route and not by the address. Installed only where tracing is on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or scope["path"].startswith(_OF_PROBES):
            await self._app(scope, receive, send)
            return
        method = method_of(scope)
        sent = Headers(scope=scope).get("traceparent")
        with span(method, {"http.request.method": method}, parent=sent, serves=True) as opened:

            async def noted(message: Message) -> None:
                if opened is not None and message["type"] == "http.response.start":
                    opened.set_attribute("http.response.status_code", message["status"])
                await send(message)

            trace_id = trace_id_of(current_traceparent())
            try:
                with structlog.contextvars.bound_contextvars(trace_id=trace_id):
                    await self._app(scope, receive, noted)
            finally:
                if opened is not None:
                    opened.update_name(f"{method} {route_of(scope)}")
                    opened.set_attribute("http.route", route_of(scope))
