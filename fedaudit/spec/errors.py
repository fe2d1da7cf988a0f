"""What is wrong with a spec: the field as a JSON pointer (RFC 6901), and the remedy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError


@dataclass(frozen=True)
class FieldError:
    """One fault: `pointer` names the field in what was sent."""

    pointer: str
    message: str


class InvalidInputError(Exception):
    """What was sent cannot be used; `errors` says where and how to mend it."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(f"{error.pointer}: {error.message}" for error in errors))
        self.errors = tuple(errors)


def json_pointer(location: Sequence[str | int], value: object) -> str:
    """The JSON pointer of a pydantic location in the value that was sent.

    Pydantic puts the tag of a discriminated union (and the name of a plain union's member) into
    its locations; these are no fields, so a step that the value does not have is left out unless
    it is the last one, a missing field.
    """
    parts: list[str] = []
    for position, step in enumerate(location):
        last = position == len(location) - 1
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(step, int):
            value = value[step] if step < len(value) else None
        elif not (last and isinstance(value, Mapping)) or _is_tag(step, value):
            continue
        parts.append(str(step).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{part}" for part in parts)


def _is_tag(step: str | int, value: Mapping[Any, Any]) -> bool:
    if isinstance(step, str) and "[" in step:
        return True
    return any(tag == step for tag in value.values() if isinstance(tag, str))


def field_errors(error: ValidationError, value: object) -> list[FieldError]:
    """Every fault that pydantic found in the value that was sent."""
    found: list[FieldError] = []
    for detail in error.errors(include_url=False):
        context = detail.get("ctx") or {}
        pointer = context.get("pointer") or json_pointer(detail["loc"], value)
        message = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            message = "unknown field; remove it or correct its name"
        fault = FieldError(pointer, message)
        if fault not in found:
            found.append(fault)
    return found
