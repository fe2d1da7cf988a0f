"""HEAD wherever there is GET: the same headers, and nothing behind them."""

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_OF_ROUTES = ("route", "path_params")


class HeadAnswers:
    """Answers HEAD as GET up to the body, and ends what would have made it: a stream, an export."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        as_get = {**scope, "method": "GET"}
        with anyio.CancelScope() as answering:

            async def headers_only(message: Message) -> None:
                if message["type"] == "http.response.start":
                    # For what counts and logs requests.
                    scope.update({name: as_get[name] for name in _OF_ROUTES if name in as_get})
                    await send(message)
                    await send({"type": "http.response.body", "body": b""})
                    answering.cancel()

            await self._app(as_get, receive, headers_only)
