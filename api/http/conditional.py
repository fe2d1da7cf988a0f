"""Conditional requests (RFC 9110, section 13) and compressed answers."""

import hashlib
from typing import Annotated

from fastapi import Depends, Request
from pydantic import BaseModel
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import ProblemError

SUFFIX = "-gzip"
"""Ends the tag of an answer's compressed form."""
_BETWEEN = "."
"""Between the parts of a tag."""
KEPT = "may_be_kept"
"""In a request's state: whether its answer may lie in the reader's own cache."""
_DESCRIBES = ("cache-control", "content-location", "etag", "vary")
"""Headers of an answer that its 304 has as well."""


class ConditionalAnswers:
    """Tags whole answers below /v1 to GET, and answers 304 where the client has that one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        asks = scope["type"] == "http" and scope["method"] == "GET"
        if not (asks and scope["path"].startswith("/v1/")):
            await self._app(scope, receive, send)
            return
        known = Headers(scope=scope).getlist("if-none-match")
        start: Message | None = None

        async def tagged(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_whole(message):
                start = message
            elif message["type"] == "http.response.body" and start is not None:
                head, body = _answer(scope, start, message, known)
                start = None
                await send(head)
                await send(body)
            else:
                await send(message)

        await self._app(scope, receive, tagged)


def _is_whole(head: Message) -> bool:
    """Whether a success comes in one piece; streams state no length and begin at once."""
    return head["status"] == 200 and "content-length" in Headers(raw=head["headers"])


def _answer(
    scope: Scope, head: Message, body: Message, known: list[str]
) -> tuple[Message, Message]:
    """A whole answer with its tag; without its body where the client has it."""
    headers = MutableHeaders(scope=head)
    tag = headers.setdefault("ETag", tag_of(body.get("body", b"")))
    headers["Vary"] = "Accept, Accept-Encoding, Authorization"
    if scope.get("state", {}).get(KEPT):
        headers["Cache-Control"] = "private, no-cache"
    if not names(known, tag):
        return head, body
    if (compressed := tag.removesuffix('"') + SUFFIX + '"') in ",".join(known):
        headers["ETag"] = compressed
    kept = [(name, value) for name, value in head["headers"] if name.decode() in _DESCRIBES]
    return {**head, "status": 304, "headers": kept}, {**body, "body": b""}


def tag_of(content: bytes | BaseModel, *, settings: bytes | None = None) -> str:
    """The tag of an answer's bytes, or of the body that a model makes.

    `settings`: what of it a change would overwrite, where the rest changes by itself, as spending
    does beside totals. The tag then has a part for each: readers compare both, writers the first.
    """
    whole = content.model_dump_json().encode() if isinstance(content, BaseModel) else content
    parts = (whole,) if settings is None else (settings, whole)
    return f'"{_BETWEEN.join(hashlib.sha256(part).hexdigest()[:32] for part in parts)}"'


def names(field_lines: list[str], tag: str) -> bool:
    """Whether a list of tags, as a header gives it, has this one or `*`.

    A weak tag (`W/`) and that of the compressed form name the same state.
    """
    listed = _listed(field_lines)
    return "*" in listed or tag in listed


def _names_settings(field_lines: list[str], tag: str) -> bool:
    """The same of the settings alone that a tag stands for; of all, where it has one part."""
    listed = _listed(field_lines)
    return "*" in listed or _settings_part(tag) in [_settings_part(one) for one in listed]


def _listed(field_lines: list[str]) -> list[str]:
    listed = [one.strip().removeprefix("W/") for line in field_lines for one in line.split(",")]
    return [one.replace(f'{SUFFIX}"', '"') for one in listed]


def _settings_part(tag: str) -> str:
    return tag.strip('"').partition(_BETWEEN)[0]


class Preconditions:
    """What the client of a change says of the state that it knows."""

    def __init__(self, request: Request) -> None:
        self._match = request.headers.getlist("if-match")
        self._none_match = request.headers.getlist("if-none-match")

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return bool(self._match or self._none_match)

    def demand(self, current: BaseModel | None, *, settings: bytes | None = None) -> None:
        """Raises ProblemError where the present state, None for nothing, is not as demanded.

        `settings` as in `tag_of`: where given, `If-Match` is compared with these alone.
        """
        tag = None if current is None else tag_of(current, settings=settings)
        if self._match and (tag is None or not _names_settings(self._match, tag)):
            raise _failed("it has changed since: get it again, and decide anew", tag)
        if self._none_match and tag is not None and names(self._none_match, tag):
            raise _failed("it is there already; leave If-None-Match out to replace it", tag)


Stated = Annotated[Preconditions, Depends(Preconditions)]


def _failed(detail: str, tag: str | None) -> ProblemError:
    headers = {} if tag is None else {"ETag": tag}
    return ProblemError(412, "precondition-failed", detail, headers=headers)


_LEAST_BYTES = 1024
_LEVEL = 5
"""Nearly as small as by level 9, in half of the time."""
_AS_THEY_ARE = (
    "text/event-stream",
    "application/zip",
    "application/octet-stream",
    "application/vnd.apache.parquet",
)


class CompressedAnswers:
    """Compresses answers below /v1 and the OpenAPI document for whoever accepts gzip."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._compressing = GZipMiddleware(
            app, minimum_size=_LEAST_BYTES, compresslevel=_LEVEL, exclude_content_types=_AS_THEY_ARE
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        path = scope.get("path", "")
        if not (path.startswith("/v1/") or path == "/openapi.json"):
            await self._app(scope, receive, send)
            return

        async def with_own_tag(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if "vary" in headers:
                    # It is named there twice by now, where the answer was compressed.
                    headers["vary"] = ", ".join(dict.fromkeys(headers["vary"].split(", ")))
                # Other bytes have another tag (RFC 9110, section 8.8.3.3).
                if headers.get("content-encoding") == "gzip" and "etag" in headers:
                    headers["etag"] = headers["etag"].removesuffix('"') + SUFFIX + '"'
            await send(message)

        await self._compressing(scope, receive, with_own_tag)
