"""A line of the log for every request, with what it was about and without what it asked for.

uvicorn's own line has the query, and queries name clients: `?client=`.
"""

from time import perf_counter

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
