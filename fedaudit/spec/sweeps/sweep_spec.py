"""A sweep as it is asked for: a base spec, the fields that vary, and how often each is repeated."""

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, ValidationError, model_validator

from fedaudit.spec.base import SpecPart, Text
from fedaudit.spec.errors import InvalidInputError, field_errors, pointer, refuse_at

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

    @model_validator(mode="after")
    def _has_ratios(self) -> Self:
        if self.scale == "log" and not (self.start > 0 and self.stop > 0):
            raise ValueError("a range by equal ratios needs two ends above 0")
        return self

    @property
    def values(self) -> list[float | int]:
        """From `start` to `stop`; whole numbers as such, as a spec's integers need them."""
        shares = [step / (self.count - 1) for step in range(self.count)]
        match self.scale:
            case "linear":
                found = [self.start + share * (self.stop - self.start) for share in shares]
            case "log":
                ratio = math.log(self.stop / self.start)
                found = [self.start * math.exp(share * ratio) for share in shares]
        rounded = [float(f"{value:.{_DIGITS}g}") for value in found]
        return [int(value) if value.is_integer() else value for value in rounded]


def _kind(value: object) -> str:
    return "list" if isinstance(value, list) else "range"


Values = Annotated[
    Annotated[list[Any], Field(min_length=1, max_length=MAX_CELLS), Tag("list")]
    | Annotated[SweepRange, Tag("range")],
    Discriminator(_kind),
]


class SweepSpec(SpecPart):
    """Every combination of the values in `grid`, with the values in `zip` side by side."""

    name: Text
    base: dict[str, Any]
    """The spec of every cell, but for what varies."""
    grid: dict[Path, Values] = {}
    """By field, its values: every combination is a cell."""
    zip: dict[Path, Values] = {}
    """By field, its values: the first ones belong together, and so on; as many for each field."""
    repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS)] = 1
    """How many seeds of each combination: that of the base and the next ones."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        both = sorted(set(self.grid) & set(self.zip))
        if both:
            raise refuse_at(pointer("zip", both[0]), "varies in `grid` as well; leave one out")
        for part in ("grid", "zip"):
            if "repeats" in getattr(self, part):
                raise refuse_at(
                    pointer(part, "repeats"), "cannot vary; say `repeats` of the sweep instead"
                )
        for path, values in self.grid.items():
            if (twice := _twice(values_of(values))) is not None:
                raise refuse_at(
                    pointer("grid", path), f"has {twice} twice; for several seeds give `repeats`"
                )
        lengths = {path: len(values_of(values)) for path, values in self.zip.items()}
        if len(set(lengths.values())) > 1:
            path = min(lengths, key=lambda one: lengths[one])
            raise refuse_at(
                pointer("zip", path),
                f"has {lengths[path]} values and another field {max(lengths.values())}; give each "
                "field of `zip` as many",
            )
        if self.repeats > 1 and "seed" in {*self.grid, *self.zip}:
            raise refuse_at("/repeats", "the seeds vary already; leave `repeats` or `seed` out")
        inner = self.base.get("repeats", 1)
        if inner not in (1, None):
            raise refuse_at(
                "/base/repeats", "is given beside the base; say `repeats` of the sweep instead"
            )
        if self.cells > MAX_CELLS:
            raise refuse_at(
                "/grid", f"makes {self.cells} cells, and {MAX_CELLS} are allowed; vary less"
            )
        return self

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
    try:
        return SweepSpec.model_validate(value)
    except ValidationError as error:
        raise InvalidInputError(field_errors(error, value)) from None
