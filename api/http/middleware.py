"""Limits and headers of every request, whatever its route."""

from collections.abc import Mapping
from time import monotonic
from typing import Any

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from api.http.observation import Middleware, on_start
from api.http.problems import ProblemError, allowed_methods, problem_response

RATE_LIMIT = "rate_limit_headers"
"""Name in a request's state of the headers that state what is left of its project's quota."""
NAMES_PEOPLE = "names_people"
"""Name in a request's state of whether a proxy sent it whose headers identify people."""
_PATIENCE_SECONDS = 5.0
_QUIET_SECONDS = 20.0
"""A body may stop for so long."""
_LEISURE_SECONDS = 30.0
_MIN_BYTES_A_SECOND = 1024
"""The least rate of a body, uploads too, after the first half minute."""


class BodyLimit(Middleware):
    """Refuses bodies above a number of bytes: at once where their length is stated, else counted.
    Uploads, which are the bodies of some paths that are no JSON, have other limits."""

    def __init__(
        self, app: ASGIApp, *, largest_bytes: int, uploads: Mapping[str, tuple[str, int]]
    ) -> None:
        """`uploads`: the prefix of their media type, and their most bytes, by path."""
        super().__init__(app)
        self._largest = largest_bytes
        self._uploads = uploads

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        media_type, largest = self._uploads.get(scope["path"], ("", self._largest))
        sent = headers.get("content-type", "").lower()
        is_upload = media_type and scope["method"] == "POST" and sent.startswith(media_type)
        largest = largest if is_upload else self._largest
        body = _Body(receive, largest)
        stated = headers.get("content-length", "")
        # Compared by length first: int() itself refuses thousands of digits.
        if stated.isascii() and stated.isdigit() and (len(stated) > 18 or int(stated) > largest):
            await problem_response(_too_large(largest), scope)(scope, receive, body.patient(send))
        else:
            # Other bodies are short, and are read whole before an answer.
            await self._app(scope, body.receive, body.patient(send) if is_upload else send)


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
        """The next message of the body; time spent on processing earlier ones does not count."""
        left = _LEISURE_SECONDS + self._received / _MIN_BYTES_A_SECOND - self._waited
        began = monotonic()
        with anyio.move_on_after(max(0.0, min(_QUIET_SECONDS, left))):
            message = await self._receive()
            self._waited += monotonic() - began
            return message
        # So slow a client is not waited for after the answer either.
        self._ended = True
        raise ProblemError(
            "request-timeout",
            f"the body came too slowly: nothing for {_QUIET_SECONDS:.0f} s, or less than "
            f"{_MIN_BYTES_A_SECOND} bytes a second",
            headers={"Connection": "close"},
        )

    def patient(self, send: Send) -> Send:
        """Sends an answer at once, then lets the client send on for a while. Closing the connection
        while the client still sends would reset it, and many clients would never see the answer."""

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
    return ProblemError("payload-too-large", f"the body is larger than {largest} bytes")


class ProxyHeaders(ProxyHeadersMiddleware):
    """Believes forwarded headers of trusted proxies; and notes, before these replace the address,
    whether it is that of a proxy which says who people are."""

    def __init__(self, app: Any, *, trusted: list[str], naming: list[str]) -> None:
        super().__init__(app, trusted)
        self._naming = ProxyHeadersMiddleware(app, naming).trusted_hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one connection."""
        peer = (scope.get("client") or ("",))[0]
        scope.setdefault("state", {})[NAMES_PEOPLE] = peer in self._naming
        await super().__call__(scope, receive, send)


class AnswerHeaders(Middleware):
    """Headers that keep answers out of caches, frames and guessed media types, and the quota left
    (draft-ietf-httpapi-ratelimit-headers)."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:

        def complete(message: Message) -> None:
            headers = MutableHeaders(scope=message)
            headers["X-Content-Type-Options"] = "nosniff"
            headers.setdefault("Referrer-Policy", "no-referrer")
            nothing = "default-src 'none'; frame-ancestors 'none'"
            headers.setdefault("Content-Security-Policy", nothing)
            if scope["path"].startswith("/v1/"):
                # Every answer there depends on the key.
                headers.setdefault("Cache-Control", "no-store")
            headers.update(scope.get("state", {}).get(RATE_LIMIT, {}))

        await self._app(scope, receive, on_start(send, complete))


class CompressedAnswers(Middleware):
    """Compresses answers below /v1 and the OpenAPI document for clients that accept gzip. Nothing
    but the API (BREACH): a page holds the secret word of its forms, and a site that makes a browser
    ask for the page with chosen text could guess the word from compressed lengths. The API needs a
    key in a header, which no foreign site can make a browser send."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app)
        self._compressing = GZipMiddleware(
            app,
            minimum_size=1024,
            # Nearly as small as by level 9, in half of the time.
            compresslevel=5,
            exclude_content_types=(
                "text/event-stream",
                "application/zip",
                "application/octet-stream",
                "application/vnd.apache.parquet",
            ),
        )

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_api = scope["path"].startswith("/v1/") or scope["path"] == "/openapi.json"
        await (self._compressing if is_api else self._app)(scope, receive, send)


class ImpliedMethods(Middleware):
    """Answers HEAD as GET up to the body, and ends what would have made it: a stream, an export.
    Answers OPTIONS with the methods of a path, and grants no other origin anything (CORS)."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "OPTIONS" and (allowed := allowed_methods(scope)):
            answer = Response(status_code=204, headers={"Allow": ", ".join(allowed)})
            await answer(scope, receive, send)
            return
        if scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        as_get = {**scope, "method": "GET"}
        with anyio.CancelScope() as answering:

            async def headers_only(message: Message) -> None:
                if message["type"] == "http.response.start":
                    # For metrics and the log.
                    known = ("route", "path_params")
                    scope.update({name: as_get[name] for name in known if name in as_get})
                    await send(message)
                    await send({"type": "http.response.body", "body": b""})
                    answering.cancel()

            await self._app(as_get, receive, headers_only)
