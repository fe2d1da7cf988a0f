"""The form as it is shown: what stands in its fields, what is wrong, what it would cost."""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from api.pages.spec_form import fields
from api.pages.spec_form.build import Built, active_fields
from api.pages.spec_form.field_errors import Fault, placed
from api.pages.spec_form.layer_lines import POINTER as LAYERS
from api.pages.spec_form.layer_lines import fault_of_layer
from api.pages.spec_form.preview import Preview
from fedaudit.spec.errors import FieldError
from models.tables.federations import Federation

DOCUMENT = "document"
"""The field of a pasted spec, and the mode in which it counts."""
MODE = "mode"
ONCE = "once"

_ONCE = re.compile(r"[\w-]{16,64}", re.ASCII)
_RULE_PARTS = ("value", "group", "op")
_GATE_PARTS = ("figure", "op", "value", "attribute")


@dataclass(frozen=True)
class Sheet:
    """One showing of the form."""

    typed: Mapping[str, str]
    """Text by field; a switch that is off is missing."""
    federations: Sequence[Federation]
    """Those that may be chosen."""
    once: str
    """Goes with the submission, so that a double click submits once."""
    faults: Sequence[Fault] = ()
    preview: Preview | None = None
    refusal: str | None = None
    """Why a submission came to nothing, where no field is at fault."""
    notes: Sequence[str] = ()
    """Which defaults follow from the chosen data, and why."""
    sections: Mapping[str, Any] = field(
        default_factory=lambda: {section.name: section for section in fields.SECTIONS}
    )

    @property
    def by_document(self) -> bool:
        """Whether the pasted spec counts, and not the fields."""
        return self.typed.get(MODE) == DOCUMENT

    @property
    def gates_open(self) -> bool:
        """Whether a gate was given."""
        rows = range(fields.GATE_ROWS)
        return any(self.text(f"{fields.GATES}/{row}/figure") for row in rows)

    @property
    def figures(self) -> list[tuple[str, str]]:
        """The figures of gates, to choose from; none at first."""
        named = [(figure, figure.replace("_", " ")) for figure in fields.GATE_FIGURES]
        return [("", "no gate"), *named]

    def text(self, name: str) -> str:
        """What stands in a field."""
        return self.typed.get(name, "")

    def wrong(self, name: str) -> list[str]:
        """What is wrong with a field."""
        return [fault.message for fault in self.faults if fault.place == name]


def blank() -> dict[str, str]:
    """What a fresh form proposes: a small task that runs as it stands."""
    typed = {one.pointer: one.initial for section in fields.SECTIONS for one in section.fields}
    typed |= {
        MODE: "form",
        fields.SOURCE: "synthetic-groups",
        fields.MECHANISM: fields.MECHANISMS[0][0],
        fields.WHOSE_GROUPS: "source",
    }
    return {name: text for name, text in typed.items() if text}


def new_once() -> str:
    """A key for one submission."""
    return secrets.token_urlsafe(18)


def is_once(text: str) -> bool:
    """Whether a form sent such a key."""
    return _ONCE.fullmatch(text) is not None


def faults_of(
    errors: Sequence[FieldError], built: Built | None, typed: Mapping[str, str]
) -> list[Fault]:
    """The faults by field; all of them at the document where `built` is None."""
    if built is None:
        return [Fault(one.pointer, one.message, DOCUMENT) for one in errors]
    registered = "id" in built.value["federation"]
    names = [fields.SOURCE, fields.MECHANISM]
    names += [one.pointer for one in active_fields(typed, registered)]
    names += _row_fields()
    in_words = [fault_of_layer(one, typed.get(LAYERS, "")) for one in errors]
    return placed(in_words, names, built.rows)


def _row_fields() -> Iterator[str]:
    for row in range(fields.RULE_ROWS):
        yield from (f"{fields.RULES}/{row}/{part}" for part in _RULE_PARTS)
    for row in range(fields.GATE_ROWS):
        yield from (f"{fields.GATES}/{row}/{part}" for part in _GATE_PARTS)
