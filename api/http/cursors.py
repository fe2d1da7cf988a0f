"""Cursors: where the next page of a list begins, in a form that says nothing to the caller."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from api.http.problems import invalid

_VERSION = 1

SmallInteger = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""What an integer column of the database can be compared with."""


def encode_cursor(route: str, key: Sequence[Any] | None) -> str | None:
    """The cursor of a page that ends with `key`; None on the last page."""
    if key is None:
        return None
    text = json.dumps([_VERSION, route, *key], default=lambda time: time.isoformat())
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_cursor(route: str, cursor: str | None, kind: TypeAdapter[Any]) -> Any:
    """The key in a cursor that `encode_cursor` made for the same route.

    `kind` is the type of the key. Raises ProblemError for anything else.
    """
    if cursor is None:
        return None
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        version, of_route, *key = json.loads(urlsafe_b64decode(padded.encode("ascii")))
        if (version, of_route) != (_VERSION, route):
            raise ValueError("made elsewhere")
        return kind.validate_json(json.dumps(key))
    except (ValueError, TypeError, RecursionError, ValidationError):
        message = "is no cursor of this list; begin again without one"
        raise invalid("/query/cursor", message) from None
