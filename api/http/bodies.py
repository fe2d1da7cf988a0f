"""Read a body in JSON: strictly, and never further than needed."""

import json
import math
from collections.abc import AsyncIterator
from typing import Annotated, Any, NoReturn, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from api.http.problems import ProblemError, invalid
from fedaudit.spec.errors import InvalidInputError, field_errors
from fedaudit.spec.parse import first_repeated

Model = TypeVar("Model", bound=BaseModel)

_DEEPEST = 64
_BLOCK_BYTES = 2**20


def media_type(request: Request) -> str:
    """The media type of a request's body, without parameters; empty where none is stated."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def in_blocks(request: Request) -> AsyncIterator[bytes]:
    """The body in pieces large enough for a thread each. Raises ProblemError where the client left
    before it was complete."""
    block = bytearray()
    try:
        async for chunk in request.stream():
            block += chunk
            if len(block) >= _BLOCK_BYTES:
                yield bytes(block)
                block.clear()
    except ClientDisconnect:
        raise invalid("", "the body broke off") from None
    yield bytes(block)


async def read_body(request: Request) -> bytes:
    """The whole body, without an object for each of its chunks. Raises ProblemError."""
    return b"".join([block async for block in in_blocks(request)])


async def read_value(request: Request) -> Any:
    """The value in a request's body. Raises ProblemError, InvalidInputError where there is none."""
    if media_type(request) != "application/json":
        detail = "send the body as JSON, with the header Content-Type: application/json"
        raise ProblemError("unsupported-media-type", detail)
    return decode_json(await read_body(request))


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
        # Only an escape can be half of a pair; without so many brackets nothing is nested too deep.
        if b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()
        if body.count(b"[") + body.count(b"{") >= _DEEPEST:
            _refuse_deeper(value, _DEEPEST)
    except UnicodeDecodeError:
        raise invalid("", "is not UTF-8; send it as plain text, uncompressed") from None
    except UnicodeEncodeError:
        raise invalid("", "holds half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise invalid("", f"is nested more than {_DEEPEST} levels deep") from None
    except ValueError as error:
        raise invalid("", f"is not JSON: {error}") from None
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


def _refuse_deeper(value: Any, levels: int) -> None:
    """Raises RecursionError for more levels; a text or number is one."""
    if not levels:
        raise RecursionError
    inner = value.values() if isinstance(value, dict) else value
    for item in inner if isinstance(value, dict | list) else ():
        _refuse_deeper(item, levels - 1)
