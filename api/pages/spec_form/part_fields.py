"""The form's fields of a union in the spec, as its members declare them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from api.pages.spec_form.field import Choices, Field, Kind
from fedaudit.spec.base import InForm, SpecPart


def part_fields(parts: Sequence[type[SpecPart]], *, where: str, tag: str) -> tuple[Field, ...]:
    """Each field of the parts at `where` once, in their order; those of every part last.

    A field is shown for the parts that have it, by the literals of their field `tag`. Raises
    ValueError where two parts describe the field of one name differently.
    """
    found: dict[str, Field] = {}
    for part in parts:
        for one in _fields_of(part, where):
            known = found.setdefault(one.pointer, one)
            if replace(known, only=()) != replace(one, only=()):
                raise ValueError(f"{one.pointer} stands in the form in two ways; agree on one")
            found[one.pointer] = replace(known, only=(*known.only, *_names(part, tag)))
    shown = found.values()
    every = sum(len(_names(part, tag)) for part in parts)
    return (
        *(one for one in shown if len(one.only) < every),
        *(replace(one, only=()) for one in shown if len(one.only) == every),
    )


def _names(part: type[SpecPart], tag: str) -> tuple[str, ...]:
    """The literal of the field by which parts are told apart."""
    names: tuple[str, ...] = get_args(part.model_fields[tag].annotation)
    return names


def _fields_of(part: type[SpecPart], where: str) -> Iterator[Field]:
    for name, info in part.model_fields.items():
        pointer, kinds = f"{where}/{name}", _kinds(info.annotation)
        for described in info.metadata:
            if isinstance(described, InForm):
                yield _field(pointer, info, described)
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, SpecPart):
                yield from _fields_of(kind, pointer)


def _field(pointer: str, info: FieldInfo, described: InForm) -> Field:
    kind, choices = _kind_of(info.annotation)
    return Field(pointer, described.label, kind, described.initial, described.hint, choices)


def _kind_of(annotation: Any) -> tuple[Kind, Choices]:
    """A switch, a choice between the words of a literal, or else a number."""
    kinds = _kinds(annotation)
    if kinds == [bool]:
        return "switch", ()
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        words = [str(word) for word in get_args(kinds[0])]
        return "choice", tuple((word, word) for word in words)
    return "number", ()


def _kinds(annotation: Any) -> list[Any]:
    """The members of a union but None; of anything else, the thing itself."""
    members = get_args(annotation) if get_origin(annotation) not in (None, Literal) else ()
    return [one for one in members or (annotation,) if one is not NoneType]
