"""A span for every request, within the trace of whoever sent it."""

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.route_labels import method_of, route_of
from infrastructure.telemetry import current_traceparent, span, trace_id_of

_OF_PROBES = ("/health/", "/metrics")


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
