"""The form for an experiment: its fields, as the spec declares them, what was typed, the spec that
it describes, and where faults belong. Other fields of a spec are given in a document alone.

Nothing typed is refused here: what cannot be read goes on as it was typed, and the spec says what
is wrong with it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from api.pages.wording import place_words
from fedaudit.privacy.mechanisms import registry as mechanisms
from fedaudit.spec.base import UPLOADED, InForm, SpecPart
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import decode_text
from models.tables.federations import Federation

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


@dataclass(frozen=True, kw_only=True)
class Field(InForm):
    """A field; its name in the form is the JSON pointer of the spec's field. `only`: empty where it
    always counts."""

    pointer: str
    kind: Kind = "value"
    choices: Choices = ()

    @property
    def is_advanced(self) -> bool:
        """Whether it is folded away while its value is the usual one."""
        return self.pointer.startswith(_ADVANCED)


def fields_at(info: FieldInfo, pointer: str) -> Iterator[Field]:
    """The fields of the form for a field of the spec, and for all below it."""
    described = next((one for one in info.metadata if isinstance(one, InForm)), None)
    types = _types(info.annotation)
    parts = [one for one in types if isinstance(one, type) and issubclass(one, SpecPart)]
    if isinstance(tag := info.discriminator, str):
        if described is not None:
            names = [name for part in parts for name in _names(part, tag)]
            parts = [one for one in parts if not {*_names(one, tag)} & {*described.left_out}]
            yield _described(f"{pointer}/{tag}", "choice", described, names)
        yield from union_fields(parts, where=pointer, tag=tag)
        return
    if described is not None:
        alone = len(types) == 1 or "" in described.words
        kind = _KINDS.get(get_origin(types[0]) or types[0], "value") if alone else "value"
        words = get_args(types[0]) if kind == "choice" else ()
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
    return Field(**vars(described), pointer=pointer, kind=kind, choices=choices)


_KINDS: dict[Any, Kind] = {
    Literal: "choice",
    list: "list",
    dict: "object",
    bool: "switch",
    str: "text",
}


def _types(annotation: Any) -> list[Any]:
    """The types of a union, or the one that there is, without what annotates them and None."""
    of_union = get_origin(annotation) not in (None, Literal, list, dict)
    found = get_args(annotation) if of_union else (annotation,)
    plain = (get_args(one)[0] if get_origin(one) is Annotated else one for one in found)
    return [one for one in plain if one is not NoneType]


def _fields_below(*of_spec: str) -> tuple[Field, ...]:
    known = ExperimentSpec.model_fields
    return tuple(field for one in of_spec for field in fields_at(known[one], f"/{one}"))


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
    "experiment": _fields_below("name", "seed", "repeats", "tags"),
    "data": _fields_below("federation"),
    "model": _fields_below("model", "decision"),
    "training": _fields_below("training"),
    "privacy": _fields_below("privacy"),
    "groups": _fields_below("fairness"),
    "gates": _fields_below("gates"),
}
FIELDS = tuple(field for section in SECTIONS.values() for field in section)


MISSING = object()
"""The value of a field that was left empty: the spec's default holds."""
_AROUND = {"list": "[]", "object": "{}"}
"""What a spec has around the text of such a field."""


def value_of(field: Field, typed: str) -> Any:
    """The JSON value, or MISSING."""
    if field.kind == "switch":  # one that is off sends nothing
        return bool(typed)
    if not typed:
        return MISSING
    if field.kind in ("text", "choice"):
        return typed
    try:
        return decode_text(typed.join(_AROUND.get(field.kind, ("", ""))))
    except InvalidInputError:
        return typed


def text_of(field: Field, value: Any) -> str:
    """What would be typed for a JSON value, null or left out as None."""
    if value is None or field.kind == "switch":
        return "on" * bool(value)
    if isinstance(value, str):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text[1:-1] if field.kind in _AROUND else text


def build(typed: Mapping[str, str]) -> dict[str, Any]:
    """The document of a spec that the typed texts describe, by the names of the form's fields.
    It leaves to the registration of the chosen federation what it does not say."""
    chosen = typed.get(SOURCE, "")
    made_up = chosen in SUGGESTED_GROUPS
    value: dict[str, Any] = {"federation": {"source" if made_up else "id": chosen}}
    for one in active_fields(typed):
        part = value_of(one, typed.get(one.pointer, ""))
        if part is not MISSING:
            _put(value, one.pointer, part)
    _put(value, MECHANISM, typed.get(MECHANISM, ""))
    if "target" in value["privacy"]:
        value["privacy"].pop("noise_multiplier", None)
    asked = value.get("fairness", {})
    if made_up and "sensitive" not in asked:
        value["fairness"] = {**SUGGESTED_GROUPS[chosen], **asked}
    return value


def active_fields(typed: Mapping[str, str]) -> Iterator[Field]:
    """The fields that count, given what is chosen in others."""
    chosen = {typed.get(name, "") for name in CHOOSERS}
    if typed.get(SOURCE, "") not in SUGGESTED_GROUPS:
        chosen.add(UPLOADED)
    for one in FIELDS:
        if not one.only or chosen & set(one.only):
            yield one


def _put(value: dict[str, Any], pointer: str, part: Any) -> None:
    *way, last = pointer.removeprefix("/").split("/")
    for step in way:
        value = value.setdefault(step, {})
    value[last] = part


# Where a fault goes that no field of the form has by itself.
_SECTIONS = {
    "/federation": SOURCE,
    "/model": "/model/kind",
    "/privacy": MECHANISM,
    "/fairness": "/fairness/sensitive",
}
LABELS = {one.pointer: one.label for one in FIELDS}


@dataclass(frozen=True)
class Fault:
    """A fault; `place` is the name of a field, and None where it belongs to none."""

    pointer: str
    message: str
    place: str | None

    @property
    def label(self) -> str | None:
        """What the form calls the field; None where it has no field of this name."""
        return LABELS.get(self.place or "")

    @property
    def inside(self) -> str:
        """Where in the text of the field, for readers; empty where it is the whole text."""
        place = self.place or self.pointer
        return place_words(self.pointer[len(place) :]) if _is_within(self.pointer, place) else ""


def _place(pointer: str, names: Sequence[str]) -> str | None:
    """The field itself; else the nearest one around it; else the first within; else its section."""
    if around := [name for name in names if _is_within(pointer, name)]:
        return max(around, key=len)
    within = (name for name in names if pointer and _is_within(name, pointer))
    sections = (name for part, name in _SECTIONS.items() if _is_within(pointer, part))
    return next(within, next(sections, None))


def _is_within(pointer: str, other: str) -> bool:
    """Whether a JSON pointer names another one's field, or something inside it."""
    return pointer == other or pointer.startswith(f"{other}/")


DOCUMENT = "document"
"""The field of a pasted spec, and the mode in which it counts."""
MODE = "mode"


@dataclass(frozen=True)
class Sheet:
    """The form as it is shown once."""

    typed: Mapping[str, str]
    """Text by field; a switch that is off is missing."""
    federations: Sequence[Federation]
    once: str
    """Goes with the submission, so that a double click submits once."""
    faults: Sequence[Fault] = ()
    preview: Mapping[str, Any] | None = None
    refusal: str | None = None
    """Why a submission was refused, where no field is at fault."""
    notes: Sequence[str] = ()
    """Which defaults follow from the chosen data, and why."""

    def text(self, name: str) -> str:
        """The text of a field."""
        return self.typed.get(name, "")

    def wrong(self, name: str) -> list[str]:
        """What is wrong with a field."""
        own = [fault for fault in self.faults if fault.place == name]
        return [f"{one.inside}: {one.message}" if one.inside else one.message for one in own]

    @property
    def by_document(self) -> bool:
        """Whether the pasted spec counts, and not the fields."""
        return self.typed.get(MODE) == DOCUMENT

    def placed(self, errors: Sequence[FieldError]) -> list[Fault]:
        """The faults by field; all of them at the document where that counts."""
        if self.by_document:
            return [Fault(one.pointer, one.message, DOCUMENT) for one in errors]
        active = [one.pointer for one in active_fields(self.typed)]
        names = [SOURCE, MECHANISM, *active]
        return [Fault(one.pointer, one.message, _place(one.pointer, names)) for one in errors]


def blank() -> dict[str, str]:
    """What a fresh form proposes: a small task that runs without a change."""
    typed = {one.pointer: one.initial for one in FIELDS}
    typed |= {MODE: "form", SOURCE: "synthetic-groups", MECHANISM: MECHANISMS[0][0]}
    return {name: text for name, text in typed.items() if text}
