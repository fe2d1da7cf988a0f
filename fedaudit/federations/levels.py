"""Text columns as codes into their distinct values, and classes by their labels."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Levels:
    """The distinct values of a column, and the index of each row's value among them."""

    values: tuple[str, ...]
    codes: NDArray[np.int64]
    """[rows]; -1 where the cell is empty."""
    numbers: NDArray[np.float64] | None = None
    """[rows] what was cut at edges, NaN where the cell is empty; None where nothing was cut."""

    @property
    def missing(self) -> int:
        """Number of rows without a value."""
        return int(np.count_nonzero(self.codes < 0))


def levels_of(values: Sequence[str], codes: NDArray[np.int64], *, numeric: bool) -> Levels:
    """Levels in order: by code point, or with `numeric` by number if every value is one.

    `codes` are positions in `values`, which are distinct; an empty value becomes -1.
    """
    order = sorted((value for value in values if value), key=_order(values, numeric=numeric))
    position = {value: place for place, value in enumerate(order)}
    recoded = np.array([position.get(value, -1) for value in values], dtype=np.int64)
    return Levels(tuple(order), recoded[codes] if len(recoded) else codes)


def _order(values: Sequence[str], *, numeric: bool) -> Callable[[str], tuple[float, str]]:
    numbers = {value: number_in(value) for value in values if value} if numeric else {}
    if numbers and None not in numbers.values():
        return lambda value: (numbers[value] or 0.0, value)
    return lambda value: (0.0, value)


def number_in(text: str) -> float | None:
    """The finite number that a text spells, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


MAX_CLASSES = 1000


def find_class(classes: Sequence[str], label: str | float) -> int | None:
    """The class that a label names, as text or as a number (1, 1.0 and "1" are the same)."""
    (index,) = find_classes(classes, [str(label)])
    return None if index < 0 else index


def find_classes(classes: Sequence[str], labels: Sequence[str]) -> list[int]:
    """The class that each label names, as `find_class`; -1 for an unknown label."""
    by_text = {name: index for index, name in reversed(list(enumerate(classes)))}
    by_number = {number_in(name): index for name, index in by_text.items()}
    by_number.pop(None, None)
    return [by_text.get(label, by_number.get(number_in(label), -1)) for label in labels]
