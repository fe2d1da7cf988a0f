"""The cells of a sweep: the document of each spec, and what distinguishes it."""

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Any

from fedaudit.spec.errors import FieldError, InvalidInputError, pointer
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.sweeps.sweep_spec import SweepSpec, values_of

SEED = "seed"
_MAX_NAME = 200
_SHOWN_FAULTS = 20


@dataclass(frozen=True)
class SweepCell:
    """One cell: what varies, and the document of its spec."""

    values: Mapping[str, Any]
    """By field; the seed is among them where it varies or is repeated."""
    document: dict[str, Any]


def expand(sweep: SweepSpec) -> list[SweepCell]:
    """The cells in the order of the fields, the last one fastest; seeds are the fastest of all.

    Raises InvalidInputError where a field has no place in the base.
    """
    return [SweepCell(values, _document(sweep, values)) for values in _combinations(sweep)]


def parse_cells(
    sweep: SweepSpec, parse: Callable[[Any], ExperimentSpec]
) -> list[tuple[SweepCell, ExperimentSpec]]:
    """The cells and their specs.

    Raises InvalidInputError with every fault once: at the field of `grid` or `zip` that it follows
    from, or in the base.
    """
    parsed = []
    faults: dict[tuple[str, str], FieldError] = {}
    for cell in expand(sweep):
        try:
            parsed.append((cell, parse(cell.document)))
        except InvalidInputError as error:
            for one in error.errors:
                found = placed(sweep, cell, one)
                faults.setdefault((found.pointer, found.message), found)
                if len(faults) >= _SHOWN_FAULTS:
                    raise InvalidInputError(list(faults.values())) from None
    if faults:
        raise InvalidInputError(list(faults.values()))
    return parsed


def placed(sweep: SweepSpec, cell: SweepCell, fault: FieldError) -> FieldError:
    """The fault of a cell's spec as one of the sweep's."""
    for part, fields in (("grid", sweep.grid), ("zip", sweep.zip)):
        for path in fields:
            mine = pointer(*path.split("."))
            if fault.pointer == mine or fault.pointer.startswith(mine + "/"):
                value = json.dumps(cell.values[path])
                message = f"with {value}: {fault.message}"
                return FieldError(pointer(part, path), message, of_spec=fault.of_spec)
    return FieldError("/base" + fault.pointer, fault.message, of_spec=fault.of_spec)


def _combinations(sweep: SweepSpec) -> Iterator[dict[str, Any]]:
    axes: list[list[dict[str, Any]]] = [
        [{path: value} for value in values_of(values)] for path, values in sweep.grid.items()
    ]
    if sweep.zip:
        columns = [values_of(values) for values in sweep.zip.values()]
        axes.append([dict(zip(sweep.zip, row, strict=True)) for row in zip(*columns, strict=True)])
    if sweep.repeats > 1:
        first = sweep.base.get(SEED, 0)
        if not isinstance(first, int):
            raise InvalidInputError([FieldError("/base/seed", "is no integer")])
        axes.append([{SEED: first + step} for step in range(sweep.repeats)])
    for chosen in product(*axes):
        yield {path: value for part in chosen for path, value in part.items()}


def _document(sweep: SweepSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    document = deepcopy(sweep.base)
    document.pop("repeats", None)
    for path, value in values.items():
        _put(document, path, deepcopy(value), sweep)
    name = document.get("name", sweep.name)
    if isinstance(name, str):
        document["name"] = _name(name, values)
    return document


def _name(base: str, values: Mapping[str, Any]) -> str:
    """The base's name with what distinguishes the cell, as far as it fits."""
    if not values:
        return base
    said = ", ".join(f"{path.rpartition('.')[2]} {_short(value)}" for path, value in values.items())
    return f"{base}: {said}"[:_MAX_NAME]


def _short(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _put(document: dict[str, Any], path: str, value: Any, sweep: SweepSpec) -> None:
    """Sets a field; objects on the way that are missing are made, items of lists are not."""
    *parents, last = path.split(".")
    part: Any = document
    for step in parents:
        if isinstance(part, dict):
            part = part.setdefault(step, {})
        else:
            part = part[_index(part, step, path, sweep)]
    if isinstance(part, dict):
        part[last] = value
    else:
        part[_index(part, last, path, sweep)] = value


def _index(part: Any, step: str, path: str, sweep: SweepSpec) -> int:
    if isinstance(part, list) and step.isdigit() and int(step) < len(part):
        return int(step)
    where = "grid" if path in sweep.grid else "zip"
    has = f"a list of {len(part)}" if isinstance(part, list) else "neither an object nor a list"
    raise InvalidInputError(
        [FieldError(pointer(where, path), f"has no place in the base: {step!r} stands in {has}")]
    )
