"""Bodies in JSON, read strictly and never further than needed; forms of answers: negotiation, JSON
that is already written, and pages of lists."""

import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NoReturn, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse

from api.http.problems import ProblemError, invalid
from fedaudit.spec.base import Text
from fedaudit.spec.errors import InvalidInputError, field_errors
from fedaudit.spec.parse import first_repeated

JSON, HTML = "application/json", "text/html"
ZIP, BYTES = "application/zip", "application/octet-stream"
"""`BYTES`: for clients that have no media type for zip files or PDF."""
_ANY = "*/*"
_VERSION = 1
SmallInteger = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""What an integer column of the database can be compared with."""


def preferred(accept: str, offered: Sequence[str]) -> str:
    """The offered media type that is accepted best (RFC 9110, section 12.5.1); the first of equals,
    and where none is accepted. Parameters other than `q` are ignored."""
    weights = dict(filter(None, map(_weighted, accept.split(","))))

    def quality(media_type: str) -> float:
        ranges = (media_type, f"{media_type.partition('/')[0]}/*", _ANY)
        return next((weights[one] for one in ranges if one in weights), 0.0)

    return max(offered, key=quality)


def bundle_response(chunks: Iterator[bytes], name: str, accept: str) -> StreamingResponse:
    """The bundle of what has this name, as a file."""
    headers = {"Content-Disposition": f'attachment; filename="{name}-bundle.zip"'}
    media_type = preferred(accept, (ZIP, BYTES))
    return StreamingResponse(chunks, media_type=media_type, headers=headers)


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


Model = TypeVar("Model", bound=BaseModel)

_DEEPEST = 64
_BLOCK_BYTES = 2**20


def media_type(request: Request) -> str:
    """The media type of a request's body, without parameters; empty where none is stated."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def in_blocks(request: Request) -> AsyncIterator[bytes]:
    """The body in pieces large enough for a thread each. Raises ProblemError."""
    block = bytearray()
    try:
        async for chunk in request.stream():
            block += chunk
            if len(block) >= _BLOCK_BYTES:
                yield bytes(block)
                block.clear()
    except ClientDisconnect:
        raise broke_off() from None
    yield bytes(block)


def broke_off() -> ProblemError:
    """The answer where the client left before its body was complete."""
    return invalid("", "the body broke off")


async def read_value(request: Request) -> Any:
    """The value in a request's body. Raises ProblemError, InvalidInputError where there is none."""
    if media_type(request) != "application/json":
        detail = "send the body as JSON, with the header Content-Type: application/json"
        raise ProblemError(415, "unsupported-media-type", detail)
    try:
        return decode_json(await request.body())
    except ClientDisconnect:
        raise broke_off() from None


JsonBody = Annotated[Any, Depends(read_value)]
"""The value of a body in JSON."""


def decode_json(body: bytes) -> Any:
    """The value in JSON text (RFC 8259) that every reader understands alike. Refused with an error
    that names the reason: other encodings than UTF-8, NaN and infinities, numbers beyond double
    precision, names given twice, halves of surrogate pairs, deep nesting."""
    try:
        value = json.loads(
            body.decode("utf-8"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_distinct,
        )
    except UnicodeDecodeError:
        raise invalid("", "is not UTF-8") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise invalid("", f"is not JSON: {error}") from None
    _check(value)
    return value


def validated(model: type[Model], value: object) -> Model:
    """The value as a model. Raises InvalidInputError naming the fields."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise InvalidInputError(field_errors(error, value)) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number; use null, or leave the field out")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large for a number in double precision")
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError(f"the name {first_repeated(pairs)!a} is given twice in one object")
    return value


def _check(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise _too_deep()
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.keys()
                inner += item.values()
            elif isinstance(item, list):
                inner += item
            elif isinstance(item, str):
                try:
                    item.encode("utf-8")
                except UnicodeEncodeError:
                    message = "holds half of a surrogate pair, which is no character"
                    raise invalid("", message) from None
        level = inner


def _too_deep() -> ProblemError:
    return invalid("", f"is nested more than {_DEEPEST} levels deep")
