"""Text columns as codes into their distinct values."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedaudit.arrays import Ints
from fedaudit.spec.labels import number_in


@dataclass(frozen=True, eq=False)
class Levels:
    """The distinct values of a column, and the index of each row's value among them."""

    values: tuple[str, ...]
    codes: Ints
    """[rows]; -1 where the cell is empty."""


def in_order(values: Sequence[str], *, numeric: bool) -> list[str]:
    """Values by code point, or with `numeric` by number if every value is one."""
    numbers = {value: number_in(value) for value in values} if numeric else {}
    if numbers and None not in numbers.values():
        return sorted(values, key=lambda value: (numbers[value] or 0.0, value))
    return sorted(values)


MAX_CLASSES = 1000
