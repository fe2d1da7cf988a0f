"""Conditional requests (RFC 9110, section 13) and compressed answers.

Readers: an answer has a tag, `ETag`; sent back in `If-None-Match` it is answered 304 without a body
while it still holds. Writers: `If-Match` refuses to change what is no longer as the client saw it,
and `If-None-Match: *` refuses to replace anything.
"""

import hashlib
from typing import Annotated

from fastapi import Depends, Request
from pydantic import BaseModel
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.observation import Middleware, on_start
from api.http.problems import ProblemError

KEPT = "may_be_kept"
"""In a request's state: whether the reader's own cache may keep its answer."""
_SUFFIX = "-gzip"
"""Ends the tag of an answer's compressed form."""
_BETWEEN = "."
"""Between the parts of a tag."""
_DESCRIBES = ("cache-control", "content-location", "etag", "vary")
"""Headers of an answer that its 304 has as well."""


class ConditionalAnswers(Middleware):
    """Tags whole answers below /v1 to GET, and answers 304 where the client has that one."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET" or not scope["path"].startswith("/v1/"):
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
    if not _names(known, tag):
        return head, body
    if (compressed := _compressed(tag)) in ",".join(known):
        headers["ETag"] = compressed
    kept = [(name, value) for name, value in head["headers"] if name.decode() in _DESCRIBES]
    return {**head, "status": 304, "headers": kept}, {**body, "body": b""}


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
        if not (scope["path"].startswith("/v1/") or scope["path"] == "/openapi.json"):
            await self._app(scope, receive, send)
            return

        def with_own_tag(message: Message) -> None:
            headers = MutableHeaders(scope=message)
            if "vary" in headers:
                # GZipMiddleware may name a field that is there already.
                headers["vary"] = ", ".join(dict.fromkeys(headers["vary"].split(", ")))
            # Other bytes have another tag (RFC 9110, section 8.8.3.3).
            if headers.get("content-encoding") == "gzip" and "etag" in headers:
                headers["etag"] = _compressed(headers["etag"])

        await self._compressing(scope, receive, on_start(send, with_own_tag))


def _compressed(tag: str) -> str:
    return tag.removesuffix('"') + _SUFFIX + '"'


def tag_of(content: bytes | BaseModel, *, settings: bytes | None = None) -> str:
    """The tag of an answer's bytes, or of the body that a model makes. `settings`: what of it a
    change would overwrite, where the rest changes by itself, as spending does beside totals. The
    tag then has a part for each: readers compare both, writers the first."""
    whole = content.model_dump_json().encode() if isinstance(content, BaseModel) else content
    parts = (whole,) if settings is None else (settings, whole)
    return f'"{_BETWEEN.join(hashlib.sha256(part).hexdigest()[:32] for part in parts)}"'


def _names(field_lines: list[str], tag: str, *, settings: bool = False) -> bool:
    """Whether a list of tags, as a header gives it, has this one or `*`; `settings`: compare the
    part for the settings alone. A weak tag (`W/`) and that of the compressed form name the same
    state."""
    listed = [one.strip().removeprefix("W/") for line in field_lines for one in line.split(",")]
    listed = [one.replace(f'{_SUFFIX}"', '"') for one in listed]
    if "*" in listed or tag in listed:
        return True
    return settings and _settings_part(tag) in map(_settings_part, listed)


def _settings_part(tag: str) -> str:
    return tag.strip('"').partition(_BETWEEN)[0]


class Preconditions:
    """What the client of a change states of the state that it knows."""

    def __init__(self, request: Request) -> None:
        self._match = request.headers.getlist("if-match")
        self._none_match = request.headers.getlist("if-none-match")

    @property
    def given(self) -> bool:
        """Whether there are any."""
        return bool(self._match or self._none_match)

    def demand(self, current: BaseModel | None, *, settings: bytes | None = None) -> None:
        """Raises ProblemError where the present state, None for nothing, is not as demanded.
        `settings` as in `tag_of`: where given, `If-Match` is compared with these alone."""
        tag = None if current is None else tag_of(current, settings=settings)
        headers = {} if tag is None else {"ETag": tag}
        if self._match and (tag is None or not _names(self._match, tag, settings=True)):
            detail = "it has changed since; get it again and decide anew"
        elif self._none_match and tag is not None and _names(self._none_match, tag):
            detail = "it is there already; leave If-None-Match out to replace it"
        else:
            return
        raise ProblemError(412, "precondition-failed", detail, headers=headers)


Stated = Annotated[Preconditions, Depends(Preconditions)]
