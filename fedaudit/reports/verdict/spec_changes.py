"""A piece of advice, and the changes of a spec that a person or a program may adopt."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from fedaudit.reports.sections.part import Part


class SpecChange(Part):
    """One field of the spec, and what to set it to; null takes it away."""

    pointer: str
    value: Any


class Advice(Part):
    """What to do next."""

    text: str
    figure: str | None = None
    """The figure of the report that the changes make better, as `SECTION/FIELD`."""
    changes: list[SpecChange] = Field(default_factory=list)
    """Empty where nothing in the spec helps, or something else is to be done."""


def with_changes(spec: Mapping[str, Any], changes: Iterable[SpecChange]) -> dict[str, Any]:
    """A spec, every default written out, after changes."""
    found = copy.deepcopy(dict(spec))
    for change in changes:
        *way, last = change.pointer.removeprefix("/").split("/")
        place = found
        for step in way:
            place = place[step]
        place[last] = change.value
    return found


def spec_changes(values: Mapping[str, Any]) -> list[SpecChange]:
    """Changes for values keyed by pointer."""
    return [SpecChange(pointer=pointer, value=value) for pointer, value in values.items()]
