"""What specs say differently, as rows that can be read: no cell holds a list of objects.

A gate is a row, named by its figure, attribute and direction, with each experiment's bound. Other
lists of objects have a row for each scalar in them.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fedaudit.spec.gates import GateOp

Json = Mapping[str, Any]

_DIRECTIONS: dict[GateOp, str] = {"le": "at most", "ge": "at least"}
_NAMES = ("figure", "attribute", "op", "value")
_ALLOWS = "allow_"


class DifferenceRow(NamedTuple):
    """One thing that specs say differently."""

    label: str
    """A path in the spec, or a gate in words."""
    is_path: bool
    cells: tuple[str | None, ...]
    """What each spec says; None where it says nothing there."""


def difference_rows(differences: Sequence[Json]) -> list[DifferenceRow]:
    """The rows of `spec_differences`, as JSON has them; those that are alike everywhere are left
    out."""
    rows = [row for one in differences for row in _rows(one)]
    return [row for row in rows if len(set(row.cells)) > 1]


def _rows(difference: Json) -> Iterator[DifferenceRow]:
    path, values = difference["path"], difference["values"]
    said = [one["value"] if one["present"] else None for one in values]
    if path == "gates":
        yield from _side_by_side([_gates(one or []) for one in said], is_path=False)
    elif any(
        isinstance(one, list) and any(isinstance(each, Mapping) for each in one) for one in said
    ):
        yield from _side_by_side([dict(_scalars(path, one)) for one in said], is_path=True)
    else:
        cells = tuple(_text(one["value"]) if one["present"] else None for one in values)
        yield DifferenceRow(path, True, cells)


def _side_by_side(found: Sequence[Mapping[str, str]], *, is_path: bool) -> Iterator[DifferenceRow]:
    for label in dict.fromkeys(label for of_one in found for label in of_one):
        yield DifferenceRow(label, is_path, tuple(of_one.get(label) for of_one in found))


def _gates(gates: Sequence[Json]) -> dict[str, str]:
    """The bounds of a spec's gates by what they are on. Several on the same thing share a cell."""
    bounds: dict[str, list[str]] = {}
    for gate in gates:
        by = f" by {gate['attribute']}" if gate.get("attribute") else ""
        label = f"gate: {gate['figure'].replace('_', ' ')}{by}, {_DIRECTIONS[gate['op']]}"
        bounds.setdefault(label, []).append(_bound(gate))
    return {label: "; ".join(found) for label, found in bounds.items()}


def _bound(gate: Json) -> str:
    allowed = [
        name.removeprefix(_ALLOWS) for name in gate if name.startswith(_ALLOWS) and gate[name]
    ]
    others = [
        f"{name} {_text(value)}"
        for name, value in gate.items()
        if name not in _NAMES and not name.startswith(_ALLOWS) and value is not None
    ]
    marks = [*([f"allowed: {', '.join(allowed)}"] if allowed else []), *others]
    return f"{gate['value']:g}" + (f" ({'; '.join(marks)})" if marks else "")


def _scalars(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Paths below a value and what stands there, such as `attacks[0].kind`."""
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _scalars(f"{path}.{name}", part)
    elif isinstance(value, list) and any(isinstance(one, (Mapping, list)) for one in value):
        for place, part in enumerate(value):
            yield from _scalars(f"{path}[{place}]", part)
    elif value is not None:
        yield path, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return "not set"
    if (
        isinstance(value, list)
        and value
        and not any(isinstance(one, (Mapping, list)) for one in value)
    ):
        return ", ".join(map(_text, value))
    return json.dumps(value, ensure_ascii=False)
