"""The fields of the form for an experiment, as the spec declares them; other fields of a spec are
given in a document alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from fedaudit.privacy.mechanisms import registry as mechanisms
from fedaudit.spec.base import UPLOADED, InForm, SpecPart
from fedaudit.spec.experiment import ExperimentSpec

Kind = Literal["text", "choice", "switch", "value", "list", "object"]
"""The last three are read as YAML; a list and an object are typed without their brackets."""
Choices = tuple[tuple[str, str], ...]

SOURCE, MECHANISM = "/federation/source", "/privacy/mechanism"
CHOOSERS = (
    *(SOURCE, MECHANISM, "/federation/scoring/method", "/model/kind", "/training/method/kind"),
    *("/training/cohort/sampling", "/training/server/optimiser"),
)
"""Fields on whose choice it depends which others count."""
SYNTHETIC = (
    ("synthetic-groups", "synthetic-groups: a majority and a minority that differ by a shift"),
    ("synthetic-linear", "synthetic-linear: linear data around several parameter vectors"),
)
MECHANISMS = tuple(
    (facts.name, facts.name, facts.description)
    for facts in (mechanism.facts for mechanism in mechanisms.MECHANISMS)
)

SUGGESTED_GROUPS: dict[str, dict[str, object]] = {
    "synthetic-groups": {
        "sensitive": ["group"],
        "favourable": [
            {"group": {"group": "g1"}, "op": "ge", "value": 0},
            {"group": {"group": "g2"}, "op": "le", "value": 15},
        ],
    },
    "synthetic-linear": {},
}
"""The groups of synthetic data, by source; a federation's come with its registration."""
CHOICE_RULES = "experiment_choices.css"


_ADVANCED = (
    *("/seed", "/repeats", "/model/start", "/training/clustering", "/training/server"),
    *("/privacy/per_layer", "/fairness/minimum_group"),
)


@dataclass(frozen=True)
class Field:
    """A field; its name in the form is the JSON pointer of the spec's field."""

    pointer: str
    label: str
    kind: Kind = "value"
    initial: str = ""
    """What the form begins with; a switch is on where it is not empty."""
    hint: str = ""
    choices: Choices = ()
    only: tuple[str, ...] = ()
    """Choices made elsewhere in the form for which the field counts; empty where it always does."""

    @property
    def is_advanced(self) -> bool:
        """Whether it is folded away while its value is the usual one."""
        return self.pointer.startswith(_ADVANCED)


@dataclass(frozen=True)
class Section:
    """Fields under one heading."""

    title: str
    fields: tuple[Field, ...]


def fields_at(info: FieldInfo, pointer: str) -> Iterator[Field]:
    """The fields of the form for a field of the spec, and for all below it."""
    described = next((one for one in info.metadata if isinstance(one, InForm)), None)
    kinds = [_plain(one) for one in _members(info.annotation)]
    parts = [one for one in kinds if isinstance(one, type) and issubclass(one, SpecPart)]
    if isinstance(tag := info.discriminator, str):
        if described is not None:
            names = [name for part in parts for name in _names(part, tag)]
            parts = [one for one in parts if not {*_names(one, tag)} & {*described.left_out}]
            yield _described(f"{pointer}/{tag}", "choice", described, names)
        yield from union_fields(parts, where=pointer, tag=tag)
        return
    if described is not None:
        kind = _kind_of(kinds[:1] if "" in described.words else kinds)
        words = get_args(kinds[0]) if kind == "choice" else ()
        yield _described(pointer, kind, described, list(map(str, words)))
    for part in parts:
        yield from _fields_of(part, pointer)


def union_fields(parts: Sequence[type[SpecPart]], *, where: str, tag: str) -> tuple[Field, ...]:
    """Each field of the parts at `where` once, in their order; fields of every part last. A field
    is shown for the parts that have it, by the literals of their field `tag`. Raises ValueError
    where two parts describe the field of one name differently."""
    found: dict[str, Field] = {}
    owners: dict[str, tuple[str, ...]] = {}
    for part in parts:
        for one in _fields_of(part, where):
            if found.setdefault(one.pointer, one) != one:
                raise ValueError(f"{one.pointer} is described in two ways; agree on one")
            owners[one.pointer] = (*owners.get(one.pointer, ()), *_names(part, tag))
    every = sum(len(_names(part, tag)) for part in parts)
    some = [one for one in found.values() if len(owners[one.pointer]) < every]
    return (
        *(replace(one, only=one.only or owners[one.pointer]) for one in some),
        *(one for one in found.values() if one not in some),
    )


def _fields_of(part: type[SpecPart], where: str) -> Iterator[Field]:
    for name, info in part.model_fields.items():
        yield from fields_at(info, f"{where}/{name}")


def _names(part: type[SpecPart], tag: str) -> tuple[str, ...]:
    names: tuple[str, ...] = get_args(part.model_fields[tag].annotation)
    return names


def _described(pointer: str, kind: Kind, described: InForm, words: Sequence[str]) -> Field:
    offered = [word for word in words if word not in described.left_out]
    choices = tuple((word, described.words.get(word, word)) for word in offered)
    if "" in described.words:
        choices = (("", described.words[""]), *choices)
    shared = (pointer, described.label, kind, described.initial, described.hint)
    return Field(*shared, choices, described.only)


_KINDS: dict[Any, Kind] = {
    Literal: "choice",
    list: "list",
    dict: "object",
    bool: "switch",
    str: "text",
}


def _kind_of(kinds: Sequence[Any]) -> Kind:
    if len(kinds) > 1:
        return "value"
    return _KINDS.get(get_origin(kinds[0]) or kinds[0], "value")


def _members(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (None, Literal, list, dict):
        return [annotation]
    return [one for one in get_args(annotation) if one is not NoneType]


def _plain(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _section(title: str, *of_spec: str) -> Section:
    known = ExperimentSpec.model_fields
    found = [field for one in of_spec for field in fields_at(known[one], f"/{one}")]
    return Section(title, tuple(found))


@cache
def choice_rules() -> str:
    """The style sheet that hides fields unless the choice is made for which they count. Where a
    browser lacks `:has`, every field is shown, with a note."""
    chosen = {UPLOADED: 'option[data-kind="uploaded"]'}
    chooser = {
        value: f'select[name="{one.pointer}"] option'
        for one in FIELDS
        if one.pointer in CHOOSERS
        for value, _ in one.choices
    } | {name: "input" for name, _, _ in MECHANISMS}
    for one in FIELDS:
        for choice in one.only:
            chosen.setdefault(choice, f'{chooser.get(choice, "option")}[value="{choice}"]')
    rules = ",\n".join(
        f"  .spec-form:has({element}:checked) .for-{choice}" for choice, element in chosen.items()
    )
    return (
        "@supports selector(:has(*)) {\n"
        "  .only, .only-note { display: none; }\n"
        f"{rules} {{ display: block; }}\n"
        "}\n"
    )


SECTIONS = {
    "experiment": _section("Experiment", "name", "seed", "repeats", "tags"),
    "federation": _section("Data", "federation"),
    "model": _section("Model", "model", "decision"),
    "training": _section("Training", "training"),
    "privacy": _section("Privacy", "privacy"),
    "groups": _section("Groups", "fairness"),
    "gates": _section("Gates", "gates"),
}
FIELDS = tuple(one for section in SECTIONS.values() for one in section.fields)
