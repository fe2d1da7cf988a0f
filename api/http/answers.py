"""Forms of answers: negotiation, JSON that is already written, and pages of lists."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError
from starlette.responses import Response, StreamingResponse

from api.http.problems import invalid
from fedaudit.spec.base import Text

JSON, HTML = "application/json", "text/html"
PDF, ZIP = "application/pdf", "application/zip"
_ANY = "*/*"
_VERSION = 1
SmallInteger = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""What an integer column of the database can be compared with."""


Appendix = Annotated[
    bool, Query(description="With the figures of every round, and on paper with every table.")
]


def preferred(accept: str, offered: Sequence[str]) -> str:
    """The offered media type that is accepted best (RFC 9110, section 12.5.1); the first of equals,
    and where none is accepted. Parameters other than `q` are ignored."""
    weights = dict(filter(None, map(_weighted, accept.split(","))))

    def quality(media_type: str) -> float:
        ranges = (media_type, f"{media_type.partition('/')[0]}/*", _ANY)
        return next((weights[one] for one in ranges if one in weights), 0.0)

    return max(offered, key=quality)


def as_file(content: str | bytes | Iterable[str | bytes], name: str, media_type: str) -> Response:
    """A file to save, whole or in parts, that no cache keeps."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    if isinstance(content, str | bytes):
        return Response(content, media_type=media_type, headers=headers)
    return StreamingResponse(content, media_type=media_type, headers=headers)


def earlier_name(successor: str) -> dict[str, str]:
    """Headers of an answer under a name that has a better one (RFC 9745, RFC 8594), by its path
    relative to the request's. docs/versions.md promises the year between the two dates."""
    return {
        "Deprecation": "@1795651200",  # 26 November 2026
        "Sunset": "Wed, 01 Dec 2027 00:00:00 GMT",
        "Link": f'<{successor}>; rel="successor-version"',
    }


def _weighted(part: str) -> tuple[str, float] | None:
    media_type, *parameters = (piece.strip().lower() for piece in part.split(";"))
    weight = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = min(max(float(value), 0.0), 1.0)
            except ValueError:
                weight = 0.0
    return (media_type, weight) if media_type else None


def _accept(request: Request) -> str:
    return ",".join(request.headers.getlist("accept")) or _ANY


Accept = Annotated[str, Depends(_accept)]


def json_answer(
    body: BaseModel, *, status_code: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A body as FastAPI would send it: for routes that are asked often and answer at length.
    FastAPI has a thread check a body that a route returns, and writes it in the event loop, where
    every other request waits. This does neither, so the route names its `response_model` itself."""
    return Response(body.model_dump_json(), status_code, headers, media_type=JSON)


def encode_cursor(route: str, key: Sequence[Any] | None) -> str | None:
    """The cursor of a page that ends with `key`; None on the last page."""
    if key is None:
        return None
    text = json.dumps([_VERSION, route, *key], default=lambda time: time.isoformat())
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(route: str, cursor: str | None, kind: TypeAdapter[Any] | None = None) -> Any:
    """The key in a cursor that `encode_cursor` made for the same route. `kind` is the type of the
    key; None for a single text. Raises ProblemError for anything else."""
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        version, of_route, *key = json.loads(urlsafe_b64decode(padded.encode("ascii")))
        if (version, of_route) != (_VERSION, route):
            raise ValueError("made elsewhere")
        return (kind or key_type(Text)).validate_json(json.dumps(key))
    except (ValueError, TypeError, RecursionError, ValidationError):
        message = "is no cursor of this list; begin again without one"
        raise invalid("/query/cursor", message) from None


@cache
def key_type(*parts: Any) -> TypeAdapter[Any]:
    """The type of keys with these parts."""
    kind: Any = tuple.__class_getitem__(parts)
    return TypeAdapter(kind)


def sorted_key_type(sort_key: str, time: Any, *times: str) -> TypeAdapter[Any]:
    """The type of the keys of a list sorted by creation, a name, one of `times`, or a figure."""
    if sort_key == "created_at":
        return key_type(Text)
    if sort_key == "name":
        return key_type(Text, Text)
    return key_type((time if sort_key in times else FiniteFloat) | None, Text)
