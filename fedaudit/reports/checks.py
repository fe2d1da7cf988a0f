"""The result of one check, and the comparisons that all share."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

from fedaudit.spec.errors import InvalidInputError

Outcome = Literal["pass", "fail", "unchecked"]
MALFORMED = (
    *(KeyError, TypeError, ValueError, AttributeError, IndexError),
    *(ArithmeticError, RecursionError, InvalidInputError),
)
"""What may be raised where a document of any shape is read as one of the right shape."""


@dataclass(frozen=True)
class Check:
    """What was checked, the outcome and, where it failed, what is wrong and where."""

    name: str
    outcome: Outcome
    detail: str

    @classmethod
    def of(cls, name: str, passed: bool, *, good: str, bad: str) -> Self:
        """A check that was decided: passed or failed."""
        return cls(name, "pass" if passed else "fail", good if passed else bad)

    @classmethod
    def failed(cls, name: str, why: str) -> Self:
        """A check that cannot pass here."""
        return cls(name, "fail", why)

    @classmethod
    def unchecked(cls, name: str, why: str) -> Self:
        """A check that could not be made because something is missing."""
        return cls(name, "unchecked", why)


def value_at(document: Any, *path: str) -> Any:
    """The value at a path of a document of any shape; None where there is no value."""
    for name in path:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document


def leaves(part: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted paths and their values: lists, empty objects and scalars."""
    for name, value in part.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


EXACT = 1e-12
"""Relative: what rounding may change in a float."""


def same(one: Any, other: Any, *, digits: float = EXACT) -> bool:
    """Whether two JSON values are equal, with floats compared up to rounding. `digits`: the largest
    difference of two floats, relative to the larger one."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        both = isinstance(one, float) and isinstance(other, float)
        try:
            return math.isclose(one, other, rel_tol=digits if both else EXACT, abs_tol=0.0)
        except OverflowError:  # an integer beyond all floats
            return False
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            same(one[name], other[name], digits=digits) for name in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(partial(same, digits=digits), one, other))
    return type(one) is type(other) and bool(one == other)


def shown(value: Any) -> str:
    """A value for a message, shortened."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]} ..."


def unknown_key(what: str, key_id: str) -> str:
    """Evidence comes with the keys that it names, so a missing key was removed."""
    return (
        f"{what} names the key {shown(key_id)}, which is not among those that came along: "
        "its id was altered, or the key removed"
    )


def numbered(first: int, last: int) -> str:
    """Entries by number, counted from 1."""
    return f"entry {first}" if first == last else f"entries {first} to {last}"


def agrees(
    report: Mapping[str, Any],
    path: str,
    found: Any,
    *,
    name: str | None = None,
    digits: float = EXACT,
) -> Check:
    """Whether the report says at `path` what was found; `digits` as of `same`."""
    stated = value_at(report, *path.split("."))
    return Check.of(
        name or f"report.{path.rpartition('.')[2]}",
        same(stated, found, digits=digits),
        good=f"{path} is equal to what was recomputed",
        bad=f"{path} is {shown(stated)} in the report and {shown(found)} recomputed",
    )


def answer_check(report: Mapping[str, Any], answer_of: Callable[[Mapping[str, Any]], Any]) -> Check:
    """Whether the report's answer is what `answer_of` finds from its figures, by outcome and codes:
    other versions may use other words for the reasons."""
    try:
        found = answer_of(report).model_dump(mode="json")
        agree = _coded(report["answer"]) == _coded(found)
    except MALFORMED:
        agree = False
    return Check.of(
        "report.answer",
        agree,
        good="the answer follows from the report's figures and gates",
        bad="the answer does not follow from the report's figures and gates",
    )


def _coded(answer: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    return answer["outcome"], [one["code"] for one in answer["reasons"]]
