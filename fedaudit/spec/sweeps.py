"""A sweep: a base spec, the fields that vary, and the cells that follow."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from fedaudit.spec.base import SpecPart, Text
from fedaudit.spec.errors import (
    FieldError,
    InvalidInputError,
    Refusals,
    error_at,
    pointer,
    raise_errors,
    refuse,
    refuse_at,
    validated,
)
from fedaudit.spec.experiment import ExperimentSpec

MAX_CELLS = 1000
MAX_REPEATS = 100
_DIGITS = 12
"""Significant digits of a range's values, so that 0.1, 0.2, 0.3 is what it says."""

Path = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^.]+(\.[^.]+)*$")]
"""The place of a field, as privacy.noise_multiplier; items of a list by their number from 0."""


class SweepRange(SpecPart):
    """Evenly spaced values, both ends included."""

    start: Annotated[float, Field(strict=False)]
    stop: Annotated[float, Field(strict=False)]
    count: Annotated[int, Field(ge=2, le=MAX_CELLS)]
    """How many values."""
    scale: Literal["linear", "log"] = "linear"
    """Equal differences, or equal ratios."""

    def faults(self) -> Refusals:
        if self.scale == "log" and not (self.start > 0 and self.stop > 0):
            yield refuse("a range by equal ratios needs two ends above 0")

    @property
    def values(self) -> list[float | int]:
        """The values from `start` to `stop`; whole numbers are int, as a spec's integers need."""
        shares = [step / (self.count - 1) for step in range(self.count)]
        match self.scale:
            case "linear":
                found = [self.start + share * (self.stop - self.start) for share in shares]
            case "log":
                ratio = math.log(self.stop / self.start)
                found = [self.start * math.exp(share * ratio) for share in shares]
        rounded = [float(f"{value:.{_DIGITS}g}") for value in found]
        return [int(value) if value.is_integer() else value for value in rounded]


Values = Annotated[
    Annotated[list[Any], Field(min_length=1, max_length=MAX_CELLS), Tag("list")]
    | Annotated[SweepRange, Tag("range")],
    Discriminator(lambda values: "list" if isinstance(values, list) else "range"),
]


class SweepSpec(SpecPart):
    """Every combination of the values in `grid`, with the values in `zip` side by side."""

    name: Text
    base: dict[str, Any]
    """The spec of every cell, but for what varies."""
    grid: dict[Path, Values] = {}
    """The values of each field: every combination is a cell."""
    zip: dict[Path, Values] = {}
    """The values of each field, equally many: the first ones belong together, and so on."""
    repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS)] = 1
    """How many seeds of each combination: that of the base and the next ones."""

    def faults(self) -> Refusals:
        both = sorted(set(self.grid) & set(self.zip))
        if both:
            yield refuse_at(pointer("zip", both[0]), "varies in `grid` as well; leave one out")
        for part in ("grid", "zip"):
            if "repeats" in getattr(self, part):
                yield refuse_at(
                    pointer(part, "repeats"), "cannot vary; say `repeats` of the sweep instead"
                )
        for path, values in self.grid.items():
            if (twice := _twice(values_of(values))) is not None:
                yield refuse_at(
                    pointer("grid", path), f"has {twice} twice; for several seeds give `repeats`"
                )
        lengths = {path: len(values_of(values)) for path, values in self.zip.items()}
        if len(set(lengths.values())) > 1:
            path = min(lengths, key=lambda one: lengths[one])
            yield refuse_at(
                pointer("zip", path),
                f"has values: {lengths[path]}, and another field {max(lengths.values())}; give "
                "each field of `zip` as many",
            )
        if self.repeats > 1 and "seed" in {*self.grid, *self.zip}:
            yield refuse_at("/repeats", "the seeds vary already; leave `repeats` or `seed` out")
        if self.base.get("repeats", 1) not in (1, None):
            yield refuse_at(
                "/base/repeats", "is given beside the base; say `repeats` of the sweep instead"
            )
        if self.cells > MAX_CELLS:
            yield refuse_at(
                "/grid", f"makes {self.cells} cells, and {MAX_CELLS} are allowed; vary less"
            )

    @property
    def cells(self) -> int:
        """How many experiments it makes."""
        beside = [len(values_of(values)) for values in self.zip.values()][:1]
        sizes = [len(values_of(values)) for values in self.grid.values()]
        return math.prod([*sizes, *beside]) * self.repeats


def values_of(values: list[Any] | SweepRange) -> list[Any]:
    """What a field takes, one after the other."""
    return values.values if isinstance(values, SweepRange) else values


def _twice(values: Sequence[Any]) -> str | None:
    """A value that is there a second time, as JSON."""
    seen: list[Any] = []
    for value in values:
        if any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in seen):
            return json.dumps(value)
        seen.append(value)
    return None


def parse_sweep(value: object) -> SweepSpec:
    """The sweep in a decoded JSON or YAML value. Raises InvalidInputError naming the fields."""
    return validated(SweepSpec, value)


SEED = "seed"
_MAX_NAME = 200
_SHOWN_FAULTS = 20


@dataclass(frozen=True)
class SweepCell:
    """One cell: what varies, and the document of its spec."""

    values: Mapping[str, Any]
    """Keyed by field, with the seed where it varies or is repeated."""
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
    parsed, faults = [], dict[FieldError, None]()  # each once, in their order
    for cell in expand(sweep):
        try:
            parsed.append((cell, parse(cell.document)))
        except InvalidInputError as error:
            faults |= dict.fromkeys(placed(sweep, cell, one) for one in error.errors)
            if len(faults) >= _SHOWN_FAULTS:
                break
    raise_errors([*faults][:_SHOWN_FAULTS])
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
            raise error_at("/base/seed", "is no integer")
        axes.append([{SEED: first + step} for step in range(sweep.repeats)])
    for chosen in product(*axes):
        yield {path: value for part in chosen for path, value in part.items()}


def _document(sweep: SweepSpec, values: Mapping[str, Any]) -> dict[str, Any]:
    document = deepcopy(sweep.base)
    document.pop("repeats", None)
    for path, value in values.items():
        _put(document, path, deepcopy(value), sweep)
    name = document.setdefault("name", sweep.name)
    if values and isinstance(name, str):
        # What distinguishes the cell, as far as it fits.
        said = [
            f"{path.rpartition('.')[2]} {value if isinstance(value, str) else json.dumps(value)}"
            for path, value in values.items()
        ]
        document["name"] = f"{name}: {', '.join(said)}"[:_MAX_NAME]
    return document


def _put(document: dict[str, Any], path: str, value: Any, sweep: SweepSpec) -> None:
    """Sets a field; objects on the way that are missing are made, items of lists are not."""
    *parents, last = path.split(".")
    part: Any = document
    for step in parents:
        key = _key(part, step, path, sweep)
        part = part.setdefault(key, {}) if isinstance(part, dict) else part[key]
    part[_key(part, last, path, sweep)] = value


def _key(part: Any, step: str, path: str, sweep: SweepSpec) -> str | int:
    if isinstance(part, dict):
        return step
    if isinstance(part, list) and step.isdigit() and int(step) < len(part):
        return int(step)
    where = "grid" if path in sweep.grid else "zip"
    has = f"a list of {len(part)}" if isinstance(part, list) else "neither an object nor a list"
    raise error_at(pointer(where, path), f"has no place in the base: {step!r} is in {has}")
