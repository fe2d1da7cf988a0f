"""Bodies in YAML, for whoever has a spec as a file: the same values as JSON, and no others."""

import datetime
import math
from collections.abc import Iterator
from typing import Any

from api.http.problems import ProblemError, invalid
from fedaudit.spec.base import MAX_INTEGER
from fedaudit.spec.errors import FieldError, InvalidInputError, pointer
from fedaudit.spec.parse import decode_text

MEDIA_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
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
