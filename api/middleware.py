"""What happens to every request and answer, whatever the route. Pure ASGI: streams stay streams."""

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import ProblemError, problem_response

_PATIENCE_SECONDS = 5.0
_NOTHING = "default-src 'none'; frame-ancestors 'none'"


class BodyLimit:
    """Refuses bodies above a number of bytes: at once where their length is told, else counted."""

    def __init__(self, app: ASGIApp, *, largest_bytes: int) -> None:
        self._app = app
        self._largest = largest_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = Headers(scope=scope).get("content-length", "")
        # Compared by length first: int() itself refuses thousands of digits.
        if told.isascii() and told.isdigit() and (len(told) > 18 or int(told) > self._largest):
            await _refuse(self._too_large(), scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._largest:
                raise self._too_large()
            return message

        await self._app(scope, counted, send)

    def _too_large(self) -> ProblemError:
        return ProblemError(
            413, "payload-too-large", f"the body is larger than {self._largest} bytes"
        )


async def _refuse(error: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers at once, then lets the client send on for a while.

    Closing the connection under a client that still sends would reset it, and many clients then
    never see the answer.
    """

    async def unfinished(message: Message) -> None:
        last = message["type"] == "http.response.body"
        await send({**message, "more_body": True} if last else message)

    await problem_response(error)(scope, receive, unfinished)
    with anyio.move_on_after(_PATIENCE_SECONDS):
        while (await receive()).get("more_body", False):
            pass
    await send({"type": "http.response.body", "body": b""})


class SecurityHeaders:
    """Headers that keep answers out of caches, frames and guessed media types."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
                headers.setdefault("Content-Security-Policy", _NOTHING)
                if scope["path"].startswith("/v1/"):
                    # Every answer there depends on the key.
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)
