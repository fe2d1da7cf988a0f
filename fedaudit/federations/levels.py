"""Text columns as codes into their distinct values."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.spec.labels import number_in


@dataclass(frozen=True, eq=False)
class Levels:
    """The distinct values of a column, and the index of each row's value among them."""

    values: tuple[str, ...]
    codes: NDArray[np.int64]
    """[rows]; -1 where the cell is empty."""


def levels_of(values: Sequence[str], codes: NDArray[np.int64], *, numeric: bool) -> Levels:
    """Levels as `in_order`. `codes` are positions in `values`, which are distinct; an empty value
    becomes -1."""
    order = in_order([value for value in values if value], numeric=numeric)
    position = {value: place for place, value in enumerate(order)}
    recoded = np.array([position.get(value, -1) for value in values], dtype=np.int64)
    return Levels(tuple(order), recoded[codes] if len(recoded) else codes)


def in_order(values: Sequence[str], *, numeric: bool) -> list[str]:
    """Values by code point, or with `numeric` by number if every value is one."""
    numbers = {value: number_in(value) for value in values} if numeric else {}
    if numbers and None not in numbers.values():
        return sorted(values, key=lambda value: (numbers[value] or 0.0, value))
    return sorted(values)


MAX_CLASSES = 1000
