"""The form for an experiment: what was typed, the spec that it describes, and where faults belong.

Nothing typed is refused here: what cannot be read goes on as it was typed, and the spec says what
is wrong with it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.pages import spec_fields as fields
from api.pages.spec_fields import Field
from fedaudit.spec.base import UPLOADED
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.parse import decode_text
from models.tables.federations import Federation

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
    """The document of a spec that the typed texts describe, by the names of the form's fields. It
    leaves to the registration of the chosen federation what it does not say."""
    chosen = typed.get(fields.SOURCE, "")
    made_up = chosen in fields.SUGGESTED_GROUPS
    value: dict[str, Any] = {"federation": {"source" if made_up else "id": chosen}}
    for one in active_fields(typed):
        part = value_of(one, typed.get(one.pointer, ""))
        if part is not MISSING:
            _put(value, one.pointer, part)
    _put(value, fields.MECHANISM, typed.get(fields.MECHANISM, ""))
    if "target" in value["privacy"]:
        value["privacy"].pop("noise_multiplier", None)
    asked = value.get("fairness", {})
    if made_up and "sensitive" not in asked:
        value["fairness"] = {**fields.SUGGESTED_GROUPS[chosen], **asked}
    return value


def active_fields(typed: Mapping[str, str]) -> Iterator[Field]:
    """The fields that count, given what is chosen in others."""
    chosen = {typed.get(name, "") for name in fields.CHOOSERS}
    if typed.get(fields.SOURCE, "") not in fields.SUGGESTED_GROUPS:
        chosen.add(UPLOADED)
    for one in fields.FIELDS:
        if not one.only or chosen & set(one.only):
            yield one


def _put(value: dict[str, Any], pointer: str, part: Any) -> None:
    *way, last = pointer.removeprefix("/").split("/")
    for step in way:
        value = value.setdefault(step, {})
    value[last] = part


# Where a fault goes that no field of the form has by itself.
_SECTIONS = {
    "/federation": fields.SOURCE,
    "/model": "/model/kind",
    "/privacy": fields.MECHANISM,
    "/fairness": "/fairness/sensitive",
}
LABELS = {one.pointer: one.label for one in fields.FIELDS}


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
        return [fault.message for fault in self.faults if fault.place == name]

    @property
    def by_document(self) -> bool:
        """Whether the pasted spec counts, and not the fields."""
        return self.typed.get(MODE) == DOCUMENT

    def placed(self, errors: Sequence[FieldError]) -> list[Fault]:
        """The faults by field; all of them at the document where that counts."""
        if self.by_document:
            return [Fault(one.pointer, one.message, DOCUMENT) for one in errors]
        active = [one.pointer for one in active_fields(self.typed)]
        names = [fields.SOURCE, fields.MECHANISM, *active]
        return [Fault(one.pointer, one.message, _place(one.pointer, names)) for one in errors]


def blank() -> dict[str, str]:
    """What a fresh form proposes: a small task that runs without a change."""
    typed = {one.pointer: one.initial for one in fields.FIELDS}
    typed |= {
        MODE: "form",
        fields.SOURCE: "synthetic-groups",
        fields.MECHANISM: fields.MECHANISMS[0][0],
    }
    return {name: text for name, text in typed.items() if text}
