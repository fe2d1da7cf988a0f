"""Limits and headers of every request, whatever its route. Pure ASGI: streams stay streams."""

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import ProblemError, problem_response

_PATIENCE_SECONDS = 5.0
_QUIET_SECONDS = 20.0
"""A body may stop for so long."""
_LEISURE_SECONDS = 30.0
_MIN_BYTES_A_SECOND = 1024
"""Beyond the first half minute a body comes at least so fast, uploads too."""
_NOTHING = "default-src 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, kw_only=True)
class Upload:
    """The bodies of a path that are files."""

    media_type: str
    """How theirs begins."""
    largest_bytes: int


class BodyLimit:
    """Refuses bodies above a number of bytes: at once where their length is stated, else counted.

    Uploads, which are the bodies of some paths that are no JSON, have limits of their own.
    """

    def __init__(self, app: ASGIApp, *, largest_bytes: int, uploads: Mapping[str, Upload]) -> None:
        """`uploads`: by path."""
        self._app = app
        self._largest = largest_bytes
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        upload = self._upload(scope, headers)
        largest = self._largest if upload is None else upload.largest_bytes
        body = _Body(receive, largest)
        stated = headers.get("content-length", "")
        # Compared by length first: int() itself refuses thousands of digits.
        if stated.isascii() and stated.isdigit() and (len(stated) > 18 or int(stated) > largest):
            await problem_response(_too_large(largest), scope)(scope, receive, body.patient(send))
        else:
            # Other bodies are read whole before an answer, and are soon read.
            await self._app(scope, body.receive, send if upload is None else body.patient(send))

    def _upload(self, scope: Scope, headers: Headers) -> Upload | None:
        """What is uploaded by the request; None where it is no upload."""
        found = self._uploads.get(scope["path"]) if scope["method"] == "POST" else None
        sent = headers.get("content-type", "").lower()
        return found if found is not None and sent.startswith(found.media_type) else None


class _Body:
    """A request's body: counted, and read to its end where it is answered too early."""

    def __init__(self, receive: Receive, largest: int) -> None:
        self._receive = receive
        self._largest = largest
        self._received = 0
        self._waited = 0.0
        self._ended = False

    async def receive(self) -> Message:
        """The next message. Raises ProblemError for too many bytes, and where they come slowly."""
        message = await (self._receive() if self._ended else self._in_time())
        self._ended = not message.get("more_body", False)
        self._received += len(message.get("body", b""))
        if self._received > self._largest:
            raise _too_large(self._largest)
        return message

    async def _in_time(self) -> Message:
        """The next message of the body; the time that is spent on what came does not count."""
        left = _LEISURE_SECONDS + self._received / _MIN_BYTES_A_SECOND - self._waited
        began = monotonic()
        with anyio.move_on_after(max(0.0, min(_QUIET_SECONDS, left))):
            message = await self._receive()
            self._waited += monotonic() - began
            return message
        # Whoever sends so slowly is not waited for after the answer either.
        self._ended = True
        raise ProblemError(
            408,
            "request-timeout",
            f"the body came too slowly: nothing for {_QUIET_SECONDS:.0f} s, or less than "
            f"{_MIN_BYTES_A_SECOND} bytes a second",
            headers={"Connection": "close"},
        )

    def patient(self, send: Send) -> Send:
        """Sends an answer at once, then lets the client send on for a while.

        Closing the connection under a client that still sends would reset it, and many clients
        then never see the answer.
        """

        async def send_on(message: Message) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if not last or self._ended:
                await send(message)
                return
            await send({**message, "more_body": True})
            with anyio.move_on_after(_PATIENCE_SECONDS):
                while (await self._receive()).get("more_body", False):
                    pass
            await send({"type": "http.response.body", "body": b""})

        return send_on


def _too_large(largest: int) -> ProblemError:
    return ProblemError(413, "payload-too-large", f"the body is larger than {largest} bytes")


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
                headers.setdefault("Referrer-Policy", "no-referrer")
                headers.setdefault("Content-Security-Policy", _NOTHING)
                if scope["path"].startswith("/v1/"):
                    # Every answer there depends on the key.
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, with_headers)


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
