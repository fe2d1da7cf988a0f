"""What happens to every request and answer, whatever the route. Pure ASGI: streams stay streams."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import ProblemError, problem_response

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
            await problem_response(self._too_large())(scope, receive, send)
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
