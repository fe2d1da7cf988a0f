"""Records grouped by budget: the ledger's subjects where every record has a budget of its own."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MAX_LEVELS = 12


@dataclass(frozen=True)
class RecordGroup:
    """Records whose budgets lie in one range."""

    name: str
    low: float
    high: float
    """The largest budget that may lie in the group."""


def record_groups(
    budgets: NDArray[np.float64], used: NDArray[np.bool_]
) -> tuple[tuple[RecordGroup, ...], NDArray[np.int64]]:
    """The groups, by ascending budget, and each record's: int [records], -1 for an unused record.

    A few distinct budgets make a group each. Many budgets are binned between 1, 2 and 5 times a
    power of ten; these bounds do not depend on the budgets.
    """
    group_of = np.full(len(budgets), -1, dtype=np.int64)
    levels = np.unique(budgets[used])
    if len(levels) <= _MAX_LEVELS:
        group_of[used] = np.searchsorted(levels, budgets[used])
        exact = [RecordGroup(f"budget {level!r}", level, level) for level in levels.tolist()]
        return tuple(exact), group_of
    ends = _round_numbers(float(levels[0]), float(levels[-1]))
    # A budget equal to a bound belongs to the group below it.
    found = np.searchsorted(ends, budgets[used], side="left")
    present, position = np.unique(found, return_inverse=True)
    group_of[used] = position
    ranges = [(ends[place - 1], ends[place]) for place in present.tolist()]
    return tuple(
        RecordGroup(f"budget over {low:g} to {high:g}", low, high) for low, high in ranges
    ), group_of


def enclosing(low: float, high: float) -> tuple[float, float]:
    """The nearest of those round numbers below budgets in [low, high], and at or above them."""
    ends = _round_numbers(low, high)
    first, last = np.searchsorted(ends, [low, high], side="left").tolist()
    below = first if low < high and ends[first] == low else first - 1
    return ends[below], ends[last]


def _round_numbers(smallest: float, largest: float) -> list[float]:
    """1, 2 and 5 times powers of ten, from below `smallest` to `largest` or above."""
    exponents = range(int(np.floor(np.log10(smallest))) - 1, int(np.floor(np.log10(largest))) + 2)
    return [float(f"{digit}e{exponent}") for exponent in exponents for digit in (1, 2, 5)]
