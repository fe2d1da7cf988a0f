"""What is wrong with a spec: the field as a JSON pointer (RFC 6901), and the remedy."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError


@dataclass(frozen=True)
class FieldError:
    """One fault: `pointer` names the field in what was sent."""

    pointer: str
    message: str
    of_spec: bool = field(default=False, compare=False, kw_only=True)
    """Whether the fault follows from what was sent and from sizes that any valid answer shows. Any
    other fault may quote data, and is withheld from readers who may not read data: an unmarked
    fault counts as one of the data."""


class InvalidInputError(Exception):
    """What was sent cannot be used; `errors` says where and how to mend it."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(f"{error.pointer}: {error.message}" for error in errors))
        self.errors = tuple(errors)


def error_at(where: str, message: str, *, of_spec: bool = False) -> InvalidInputError:
    """An error to raise; `where` is a JSON pointer into the spec. `of_spec`: whether it discloses
    nothing about the data, as in `FieldError`."""
    return InvalidInputError([FieldError(where, message, of_spec=of_spec)])


def raise_errors(faults: list[FieldError]) -> None:
    """Raise InvalidInputError with every error found, if there are any."""
    if faults:
        raise InvalidInputError(faults)


class Faults:
    """Every fault of a file, so that a caller mends all of them before the next attempt."""

    def __init__(self) -> None:
        self.found: list[FieldError] = []
        self._known: set[str] = set()

    @contextmanager
    def noting(self, once: str = "") -> Iterator[None]:
        """Notes the fault of a block: what it was to read is missing behind it. `once`: a name of
        what several blocks check part by part, of which the first fault is noted."""
        try:
            yield
        except InvalidInputError as error:
            if once not in self._known:
                self.found += error.errors
            self._known |= {once} - {""}

    def error(self, most: int | None = None) -> InvalidInputError:
        """What is to be raised: each of the faults once, at most so many."""
        return InvalidInputError(list(dict.fromkeys(self.found))[:most])

    def end(self) -> None:
        """Raises InvalidInputError where there is any."""
        if self.found:
            raise self.error()


_MOST_LISTED = 20


def listed(names: tuple[str, ...] | list[str]) -> str:
    """Names for a message: quoted, and truncated where there are many."""
    shown = ", ".join(repr(name) for name in names[:_MOST_LISTED])
    more = len(names) - _MOST_LISTED
    return f"{shown} and {more} more" if more > 0 else shown or "none"


def listed_values(values: Sequence[str]) -> str:
    """Values of cells for a message; where there are many, none: they may be names or measurements
    of people, which no profile shows either."""
    return listed(tuple(values)) if len(values) <= _MOST_LISTED else "more values than can be named"


def no_column(name: str, known: Sequence[str]) -> str:
    """That a file has no such column, which it has, and the likeliest of these."""
    by_fold = {one.casefold(): one for one in known}
    near = get_close_matches(name.casefold(), by_fold, n=1)
    meant = f"; did you mean {by_fold[near[0]]!r}?" if near else ""
    return f"the file has no column {name!r}; it has {listed(list(known))}{meant}"


def refuse(message: str) -> PydanticCustomError:
    """An error of a check that names no field: that of the part as a whole."""
    return PydanticCustomError("inconsistent", "{message}", {"message": message})


def refuse_at(pointer: str, message: str) -> PydanticCustomError:
    """An error for a validator to raise that names the field at fault (a JSON pointer)."""
    return PydanticCustomError(
        "inconsistent", "{message}", {"message": message, "pointer": pointer}
    )


Refusals = Iterator[PydanticCustomError]
"""What a check finds, made by `refuse` and `refuse_at`."""


def of_spec(found: Refusals) -> list[FieldError]:
    """What a check of a spec finds, outside of a validator."""
    known = [one.context or {} for one in found]
    return [FieldError(one["pointer"], one["message"], of_spec=True) for one in known]


def refuse_all(found: Iterable[PydanticCustomError]) -> None:
    """Raise all that a validator found as one error, with the first fault of each field."""
    by_field: dict[str, PydanticCustomError] = {}
    for one in found:
        by_field.setdefault((one.context or {}).get("pointer", ""), one)
    if by_field:
        details = [InitErrorDetails(type=one, input=None) for one in by_field.values()]
        raise ValidationError.from_exception_data("agreement", details)


# Fields by which the members of a union are distinguished.
_DISCRIMINATORS = ("source", "kind", "mechanism", "method", "sampling", "optimiser")


def json_pointer(location: Sequence[str | int], value: object) -> str:
    """The JSON pointer of a pydantic location in the value that was sent.

    Pydantic puts the tag of a discriminated union (and the name of a plain union's member) into
    its locations; these are no fields, so steps that the value does not have are left out.
    """
    pointer = ""
    tagged = False
    for step in location:
        tags = [value.get(name) for name in _DISCRIMINATORS] if isinstance(value, Mapping) else []
        if not tagged and step in tags:
            tagged = True
        elif _has(value, step):
            value = value[step]  # type: ignore[index]
            tagged = False
            pointer += _escaped(step)
    return pointer


def _has(value: object, step: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(step, int) and step < len(value)
    return isinstance(value, Mapping) and step in value


def pointer(*steps: str | int) -> str:
    """The JSON pointer of a field, whatever characters a column's name has."""
    return "".join(map(_escaped, steps))


def _escaped(step: str | int) -> str:
    text = str(step).encode("utf-8", "backslashreplace").decode()
    return "/" + text.replace("~", "~0").replace("/", "~1")


_MESSAGES = {
    "extra_forbidden": "unknown field; remove it or correct its name",
    "missing": "is required",
    "string_too_short": "is empty, or too short",
    "model_type": "must be an object with named fields",
    "model_attributes_type": "must be an object with named fields",
    "dict_type": "must be an object with named fields",
    "list_type": "must be a list",
    "string_type": "must be a text; put it in quotes",
    "int_type": "must be a whole number, written without a decimal point or quotes",
    "float_type": "must be a number, written without quotes",
    "bool_type": "must be true or false",
}
_SHOULD = re.compile("^(Input|String|List|Dictionary|Tuple|Set|Value) should(?= )")
_COMMA = re.compile(r"[-+]?\d*,\d+")
_NO_CONTROLS = r"[^\x00-\x1f\x7f]"


def field_errors(error: ValidationError, value: object) -> list[FieldError]:
    """Every fault that pydantic found in the value that was sent."""
    found: dict[FieldError, None] = {}
    for detail in error.errors(include_url=False):
        context = detail.get("ctx") or {}
        pointer = context.get("pointer") or json_pointer(detail["loc"], value)
        if detail["type"] == "missing":
            pointer += _escaped(detail["loc"][-1])
        elif detail["type"].startswith("union_tag_"):
            pointer += _escaped(context["discriminator"].strip("'"))
        if detail["type"] == "float_type" and _COMMA.fullmatch(str(detail["input"])):
            message = f"has a comma; write {detail['input'].replace(',', '.')} with a point"
        else:
            message = fault_words(detail)
        found[FieldError(pointer, message)] = None
    return list(found)


Part = TypeVar("Part", bound=BaseModel)


def validated(kind: type[Part], value: object, *, context: Any = None) -> Part:
    """A part of a spec from a decoded JSON or YAML value. Raises InvalidInputError naming the
    fields."""
    try:
        return kind.model_validate(value, context=context)
    except ValidationError as error:
        raise InvalidInputError(field_errors(error, value)) from None


def fault_words(detail: Mapping[str, Any]) -> str:
    """What is wrong with what pydantic refused and what to do, in the words of a spec."""
    kind, context = detail["type"], detail.get("ctx") or {}
    must = _SHOULD.sub("must", detail["msg"].removeprefix("Value error, "))
    must = re.sub(" after validation, not [0-9]+$", "", must)
    # No one states a delta in percent.
    share = 1 in (context.get("lt"), context.get("le")) and "delta" not in detail["loc"][-1:]
    match kind:
        case "union_tag_invalid":
            return f"{context['tag']!r} is not offered; choose one of {context['expected_tags']}"
        case "union_tag_not_found":
            return "is required; it says which kind this is"
        case "string_pattern_mismatch" if "[0-9a-f]{64}" in context["pattern"]:
            return "must be the SHA-256 of the file, 64 hexadecimal digits in small letters"
        case "string_pattern_mismatch" if context["pattern"].startswith("^" + _NO_CONTROLS):
            return "must not contain control characters"
        case "less_than" | "less_than_equal" if share:
            return f"{must}; 0.3 is 30 %"
        case _:
            return _MESSAGES.get(kind, must)
