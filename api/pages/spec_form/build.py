"""From the fields of the form to the value of a spec."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from api.pages.spec_form import fields
from api.pages.spec_form.field import Field
from api.pages.spec_form.typed import MISSING, parts, value_of
from api.pages.spec_form.typed_number import number

_BELONGS_TO_THE_FILE = ("path", "id")


@dataclass(frozen=True)
class Built:
    """What the form asks for."""

    value: dict[str, Any]
    """To be parsed as a spec."""
    rows: dict[str, str] = field(default_factory=dict)
    """JSON pointer in the value -> the row of the form that it comes from; empty rows count for
    nothing, so the two may have different numbers."""


def build(typed: Mapping[str, str], registrations: Mapping[str, Mapping[str, Any]]) -> Built:
    """The value that the typed texts come to, by the names of the form's fields.

    `registrations`: what the federations that may be chosen were registered with, by id.
    """
    registered = registrations.get(typed.get(fields.SOURCE, ""))
    built = Built({})
    _put(built.value, "/federation", _source(typed, registered))
    for one in active_fields(typed, registered is not None):
        value = value_of(one, typed.get(one.pointer, ""))
        if value is not MISSING:
            _put(built.value, one.pointer, value)
    _put(built.value, fields.MECHANISM, typed.get(fields.MECHANISM, ""))
    _add_groups(built, typed, registered)
    _add_gates(built, typed)
    return built


def active_fields(typed: Mapping[str, str], registered: bool) -> Iterator[Field]:
    """The fields that count, given what is chosen in others."""
    chosen = {typed.get(name, "") for name in (*fields.CHOOSERS, fields.WHOSE_GROUPS)}
    if registered:
        chosen.add(fields.UPLOADED)
    for section in fields.SECTIONS:
        for one in section.fields:
            if not one.only or chosen & set(one.only):
                yield one


def _source(typed: Mapping[str, str], registered: Mapping[str, Any] | None) -> dict[str, Any]:
    chosen = typed.get(fields.SOURCE, "")
    if registered is None:
        return {"source": chosen}
    source = registered["federation"]
    kept = {name: value for name, value in source.items() if name not in _BELONGS_TO_THE_FILE}
    return {**kept, "id": chosen}


def _add_groups(
    built: Built, typed: Mapping[str, str], registered: Mapping[str, Any] | None
) -> None:
    if typed.get(fields.WHOSE_GROUPS) == "own":
        _add_rules(built, typed)
        return
    if registered is None:
        suggested = fields.SUGGESTED_GROUPS.get(typed.get(fields.SOURCE, ""), {})
    else:
        suggested = registered["fairness"]
    asked = built.value.get("fairness", {})
    built.value["fairness"] = {**suggested, **asked}


def _add_rules(built: Built, typed: Mapping[str, str]) -> None:
    """The favourable outcome: one rule for everyone where no group is named, else one a group."""
    rules: list[dict[str, Any]] = []
    for row in range(fields.RULE_ROWS):
        name = f"{fields.RULES}/{row}"
        group, value = typed.get(f"{name}/group", ""), typed.get(f"{name}/value", "")
        if not group and not value:
            continue
        op = typed.get(f"{name}/op", "")
        rule: dict[str, Any] = {"op": op}
        if group:
            attribute, _, of_group = group.partition(":")
            rule["group"] = {attribute.strip(): of_group.strip()}
        if value:
            rule["value"] = [number(one) for one in parts(value)] if op == "in" else number(value)
        built.rows[f"{fields.RULES}/{len(rules)}"] = name
        rules.append(rule)
    if len(rules) == 1 and "group" not in rules[0]:
        built.rows[fields.RULES] = built.rows.pop(f"{fields.RULES}/0")
        _put(built.value, fields.RULES, rules[0])
    elif rules:
        _put(built.value, fields.RULES, rules)


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
        for allowed in (
            "allow_heuristic",
            "allow_conditional",
            "allow_simulation",
            "allow_degenerate",
            "allow_personal_models",
        ):
            gate[allowed] = bool(typed.get(f"{name}/{allowed}"))
        built.rows[f"{fields.GATES}/{len(gates)}"] = name
        gates.append(gate)
    if gates:
        built.value["gates"] = gates


def _put(value: dict[str, Any], pointer: str, part: Any) -> None:
    """Set a field below objects that are made where they are missing."""
    *way, last = pointer.removeprefix("/").split("/")
    for step in way:
        value = value.setdefault(step, {})
    value[last] = part
