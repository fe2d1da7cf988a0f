"""The form for an experiment: what was typed, the spec that it describes, and where faults belong.

Nothing typed is refused here: what is no number goes on as it was typed, and the spec says what is
wrong with it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from api.pages import spec_fields as fields
from api.pages.spec_fields import Field, Kind, number
from fedaudit.spec.base import UPLOADED
from fedaudit.spec.errors import FieldError
from fedaudit.spec.fairness import joined_in, left_out_in
from models.tables.federations import Federation

MISSING = object()
"""The value of a field that was left empty: the spec's default holds."""


def value_of(field: Field, typed: str) -> Any:
    """The JSON value, or MISSING."""
    if not typed and field.kind != "switch":  # a switch that is off sends nothing
        return MISSING
    return _READERS[field.kind](typed)


def parts(typed: str, between: str = ",") -> list[str]:
    """The texts between commas, stripped; empty ones are left out."""
    return [part.strip() for part in typed.split(between) if part.strip()]


def _read(read: Callable[[list[str]], Any], typed: str) -> Any:
    """The texts between semicolons, read; as they are, for the spec to refuse, where they are not
    as they should be."""
    try:
        return read(parts(typed, ";"))
    except ValueError:
        return typed


_READERS: dict[Kind, Callable[[str], Any]] = {
    "text": str,
    "choice": str,
    "number": number,
    "numbers": lambda typed: [number(part) for part in parts(typed)],
    "vectors": lambda typed: [list(map(number, parts(one))) for one in parts(typed, ";")],
    "words": parts,
    "switch": bool,
    "sets": lambda typed: [parts(one, "+") for one in parts(typed, ";")],
    "joined": lambda typed: _read(joined_in, typed),
    "left-out": lambda typed: _read(left_out_in, typed),
}


@dataclass(frozen=True)
class Built:
    """What the form asks for."""

    value: dict[str, Any]
    rows: dict[str, str] = field(default_factory=dict)
    """JSON pointer in the value -> the row of the form that it comes from; empty rows are skipped,
    so the two may have different numbers."""


def build(typed: Mapping[str, str], registrations: Mapping[str, Mapping[str, Any]]) -> Built:
    """The value that the typed texts describe, by the names of the form's fields. `registrations`:
    what the federations that may be chosen were registered with, by id."""
    chosen = typed.get(fields.SOURCE, "")
    registered = registrations.get(chosen)
    built = Built({"federation": {"source": chosen}})
    if registered is not None:
        source = registered["federation"]
        kept = {name: value for name, value in source.items() if name not in ("path", "id")}
        built.value["federation"] = {**kept, "id": chosen}
    for one in active_fields(typed):
        value = value_of(one, typed.get(one.pointer, ""))
        if value is not MISSING:
            _put(built.value, one.pointer, value)
    _put(built.value, fields.MECHANISM, typed.get(fields.MECHANISM, ""))
    if "target" in built.value["privacy"]:
        built.value["privacy"].pop("noise_multiplier", None)
    _add_groups(built, typed, registered)
    _add_gates(built, typed)
    return built


def active_fields(typed: Mapping[str, str]) -> Iterator[Field]:
    """The fields that count, given what is chosen in others."""
    chosen = {typed.get(name, "") for name in (*fields.CHOOSERS, fields.WHOSE_GROUPS)}
    if typed.get(fields.SOURCE, "") not in dict(fields.SYNTHETIC):
        chosen.add(UPLOADED)
    for section in fields.SECTIONS:
        for one in section.fields:
            if not one.only or chosen & set(one.only):
                yield one


def _add_groups(
    built: Built, typed: Mapping[str, str], registered: Mapping[str, Any] | None
) -> None:
    if typed.get(fields.WHOSE_GROUPS) == "own":
        rules: list[dict[str, Any]] = []
        for row in range(fields.RULE_ROWS):
            name = f"{fields.RULES}/{row}"
            group, value = typed.get(f"{name}/group", ""), typed.get(f"{name}/value", "")
            if not group and not value:
                continue
            rule = rule_of(typed.get(f"{name}/op", ""), value)
            if group:
                attribute, _, of_group = group.partition(":")
                rule["group"] = {attribute.strip(): of_group.strip()}
            built.rows[f"{fields.RULES}/{len(rules)}"] = name
            rules.append(rule)
        if len(rules) == 1 and "group" not in rules[0]:
            built.rows[fields.RULES] = built.rows.pop(f"{fields.RULES}/0")
            _put(built.value, fields.RULES, rules[0])
        elif rules:
            _put(built.value, fields.RULES, rules)
        return
    if registered is None:
        suggested = fields.SUGGESTED_GROUPS.get(typed.get(fields.SOURCE, ""), {})
    else:
        suggested = registered["fairness"]
    asked = built.value.get("fairness", {})
    built.value["fairness"] = {**suggested, **asked}


def rule_of(op: str, value: str) -> dict[str, Any]:
    """A rule of a favourable outcome."""
    if not value:
        return {"op": op}
    listed = [number(one) for one in parts(value)]
    return {"op": op, "value": listed if op == "in" else number(value)}


def _add_gates(built: Built, typed: Mapping[str, str]) -> None:
    gates: list[dict[str, Any]] = []
    for row in range(fields.GATE_ROWS):
        name = f"{fields.GATES}/{row}"
        figure = typed.get(f"{name}/figure", "")
        if not figure:
            continue
        gate: dict[str, Any] = {"figure": figure, "op": typed.get(f"{name}/op", "")}
        if value := typed.get(f"{name}/value", ""):
            gate["value"] = number(value)
        if attribute := typed.get(f"{name}/attribute", ""):
            gate["attribute"] = attribute
        for allowed in _ALLOWED:
            gate[allowed] = bool(typed.get(f"{name}/{allowed}"))
        built.rows[f"{fields.GATES}/{len(gates)}"] = name
        gates.append(gate)
    if gates:
        built.value["gates"] = gates


def _put(value: dict[str, Any], pointer: str, part: Any) -> None:
    *way, last = pointer.removeprefix("/").split("/")
    for step in way:
        value = value.setdefault(step, {})
    value[last] = part


_RULE_PARTS = ("value", "group", "op")
_GATE_PARTS = ("figure", "op", "value", "attribute")
_ALLOWED = (
    *("allow_heuristic", "allow_conditional", "allow_simulation", "allow_degenerate"),
    "allow_personal_models",
)
# Where a fault goes that no field of the form has by itself.
_SECTIONS = {
    "/federation": "/federation/source",
    "/model": "/model/kind",
    "/privacy": "/privacy/mechanism",
    "/fairness": "/fairness/sensitive",
}
LABELS = {one.pointer: one.label for section in fields.SECTIONS for one in section.fields}


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


def placed(
    errors: Sequence[FieldError], names: Collection[str], rows: Mapping[str, str]
) -> list[Fault]:
    """The faults by the form's fields, which are `names`; `rows` as in `Built`."""
    return [Fault(one.pointer, one.message, _place(one.pointer, names, rows)) for one in errors]


def _place(pointer: str, names: Collection[str], rows: Mapping[str, str]) -> str | None:
    """The field itself; else the nearest one around it; else the first within; else its section."""
    if not pointer:
        return None
    for of_value, of_form in rows.items():
        if is_within(pointer, of_value):
            pointer = of_form + pointer.removeprefix(of_value)
            break
    around = [name for name in names if is_within(pointer, name)]
    if around:
        return max(around, key=len)
    within = next((name for name in names if is_within(name, pointer)), None)
    if within is not None:
        return within
    return next((name for part, name in _SECTIONS.items() if is_within(pointer, part)), None)


def is_within(pointer: str, other: str) -> bool:
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
    sections: Mapping[str, Any] = field(
        default_factory=lambda: {section.name: section for section in fields.SECTIONS}
    )

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


def blank() -> dict[str, str]:
    """What a fresh form proposes: a small task that runs without a change."""
    typed = {one.pointer: one.initial for section in fields.SECTIONS for one in section.fields}
    typed |= {
        MODE: "form",
        fields.SOURCE: "synthetic-groups",
        fields.MECHANISM: fields.MECHANISMS[0][0],
        fields.WHOSE_GROUPS: "source",
    }
    return {name: text for name, text in typed.items() if text}


def faults_of(
    errors: Sequence[FieldError], built: Built | None, typed: Mapping[str, str]
) -> list[Fault]:
    """The faults by field; all of them at the document where `built` is None."""
    if built is None:
        return [Fault(one.pointer, one.message, DOCUMENT) for one in errors]
    names = [fields.SOURCE, fields.MECHANISM, *(one.pointer for one in active_fields(typed))]
    for rows, parts_, name in (
        (fields.RULE_ROWS, _RULE_PARTS, fields.RULES),
        (fields.GATE_ROWS, _GATE_PARTS, fields.GATES),
    ):
        names += [f"{name}/{row}/{part}" for row in range(rows) for part in parts_]
    return placed(errors, names, built.rows)
