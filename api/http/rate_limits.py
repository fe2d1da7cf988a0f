"""How many requests are left, on every answer (draft-ietf-httpapi-ratelimit-headers)."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_KEPT = "rate_limit_headers"


def limit_headers(scope: Scope, *, limit: int, used: int, seconds_left: int) -> dict[str, str]:
    """The headers of a limit a minute, kept for the answer of the request in `scope`."""
    headers = {
        "RateLimit-Policy": f'"requests";q={limit};w=60',
        "RateLimit": f'"requests";r={max(0, limit - used)};t={seconds_left}',
    }
    scope.setdefault("state", {})[_KEPT] = headers
    return headers


class RateLimitHeaders:
    """Adds what was kept to the answer, whatever it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = scope.get("state", {}).get(_KEPT, {})
                MutableHeaders(scope=message).update(kept)
            await send(message)

        await self._app(scope, receive, with_headers)
