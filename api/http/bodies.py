"""Read a body in JSON or YAML: strictly, and never further than needed."""

import datetime
import json
import math
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, NoReturn, TypeVar

from anyio.to_thread import run_sync
from fastapi import Depends, Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from api.http.problems import ProblemError, invalid
from fedaudit.spec.base import MAX_INTEGER
from fedaudit.spec.errors import FieldError, InvalidInputError, field_errors, pointer
from fedaudit.spec.parse import decode_text, first_repeated

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
_MOST_BYTES = 64 * 1024
"""A spec has a few thousand. YAML takes its time: 2 s for so many, where JSON takes none."""
_QUOTED = (datetime.date, bytes)
"""What YAML takes some texts for unless they are in quotes."""


def read_yaml(body: bytes) -> Any:
    """The value in a YAML text, read as the command line reads it.

    Raises ProblemError, and InvalidInputError for what is no YAML, names given twice and aliases.
    """
    if len(body) > _MOST_BYTES:
        raise ProblemError(
            413, "payload-too-large", f"a body in YAML has at most {_MOST_BYTES} bytes; send JSON"
        )
    try:
        return decode_text(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise invalid("", "is not UTF-8") from None


def refuse_beyond_json(value: Any) -> None:
    """Raises InvalidInputError, by pointer, for what JSON has no word for, such as a date.

    The value must not be nested deeply.
    """
    if faults := list(_faults(value)):
        raise InvalidInputError(faults)


def _faults(value: Any, *steps: str | int) -> Iterator[FieldError]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(name, str):
                yield from _faults(inner, *steps, name)
            else:
                yield _fault(steps, "has a name that is no text but a number or the like; quote it")
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _faults(inner, *steps, position)
    elif isinstance(value, _QUOTED):
        yield _fault(steps, "is a date, a time or binary in YAML; put it in quotes to be a text")
    elif isinstance(value, float) and not math.isfinite(value):
        yield _fault(steps, "is no finite number; use null, or leave the field out")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        yield _fault(steps, f"is larger than {MAX_INTEGER}")
    elif not isinstance(value, str | int | float | None):
        yield _fault(steps, "is neither a text, a number, true or false, a list nor an object")


def _fault(steps: tuple[str | int, ...], message: str) -> FieldError:
    return FieldError(pointer(*steps), message, of_spec=True)


Model = TypeVar("Model", bound=BaseModel)

_DEEPEST = 64
_BLOCK_BYTES = 2**20
_BROKE_OFF = "the body broke off"
_NOT_JSON = "is not JSON: "


def media_type(request: Request) -> str:
    """The media type of a request's body, without parameters; empty where none is stated."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def in_blocks(request: Request) -> AsyncIterator[bytes]:
    """The body in pieces of a size that is worth a thread's while. Raises ProblemError."""
    block = bytearray()
    try:
        async for chunk in request.stream():
            block += chunk
            if len(block) >= _BLOCK_BYTES:
                yield bytes(block)
                block.clear()
    except ClientDisconnect:
        raise invalid("", _BROKE_OFF) from None
    yield bytes(block)


async def read_value(request: Request) -> Any:
    """The value in a request's body. Raises ProblemError, InvalidInputError where there is none."""
    sent_as = media_type(request)
    try:
        if sent_as == "application/json":
            return decode_json(await request.body())
        if sent_as in YAML_TYPES:
            return await run_sync(decode_yaml, await request.body())
    except ClientDisconnect:
        raise invalid("", _BROKE_OFF) from None
    raise ProblemError(
        415,
        "unsupported-media-type",
        "send the body as JSON, with the header Content-Type: application/json, or as YAML, with "
        "application/yaml",
    )


JsonBody = Annotated[Any, Depends(read_value)]
"""The value that a body in JSON or YAML has."""


def decode_json(body: bytes) -> Any:
    """The value in JSON text (RFC 8259) that any reader understands alike.

    Refused with an error that names the reason: other encodings than UTF-8, NaN and infinities,
    numbers beyond double precision, names given twice, halves of surrogate pairs, deep nesting.
    """
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
        raise invalid("", _NOT_JSON + str(error)) from None
    _check(value)
    return value


def decode_yaml(body: bytes) -> Any:
    """The value in a short YAML text, which is refused like JSON for what JSON cannot say."""
    value = read_yaml(body)
    _check(value)
    refuse_beyond_json(value)
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
            elif isinstance(item, str) and not _is_text(item):
                raise invalid("", "holds half of a surrogate pair, which is no character")
        level = inner


def _is_text(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _too_deep() -> ProblemError:
    return invalid("", f"is nested more than {_DEEPEST} levels deep")
