"""How many requests were answered, how, and after how long: by route, not by address.

With several processes behind one port the figures are those of all of them: each writes its own
into a file of a folder that they share (prometheus_client's multiprocess mode), and whichever is
asked adds them up. A process that ended leaves its file, so that no counter falls.
"""

import os
from time import perf_counter

from prometheus_client import REGISTRY, CollectorRegistry, Histogram
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.route_labels import method_of, route_of

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
