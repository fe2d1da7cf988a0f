"""What the columns of a table hold, as far as its rows were counted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedaudit.federations.levels import number_in

MAX_VALUES = 1000
"""Distinct values of a column beyond which they are no longer told apart."""
_GAPS = frozenset({"?", "na", "n/a", "#n/a", "nan", "null", "none", "-", ".", "missing"})


@dataclass
class Column:
    """One column of the rows that were read."""

    name: str
    rows: int = 0
    values: Counter[str] = field(default_factory=Counter)
    """Rows of each distinct text that is not empty, as long as there are MAX_VALUES at most."""
    many: bool = False
    """Whether there are more, and `values` holds the first only."""
    empty: int = 0
    texts: Counter[str] = field(default_factory=Counter)
    """Rows of the distinct texts that are no numbers, as long as they are few."""
    largest: float = 0.0
    """The largest absolute value among the numbers."""
    fractions: bool = False
    """Whether some number is not whole."""

    def add(self, values: Sequence[str], rows: Sequence[int]) -> None:
        """Count distinct texts of some rows."""
        for text, count in zip(values, rows, strict=True):
            self.rows += count
            if not text:
                self.empty += count
                continue
            self._number(text, count)
            if text in self.values or len(self.values) < MAX_VALUES:
                self.values[text] += count
            else:
                self.many = True

    @property
    def gaps(self) -> tuple[str, ...]:
        """The texts that seem to mean an empty cell."""
        return tuple(sorted(text for text in self.texts if text.casefold() in _GAPS))

    @property
    def missing(self) -> int:
        """Rows without a value, those whose texts seem to mean none among them."""
        return self.empty + sum(self.texts[text] for text in self.gaps)

    @property
    def numeric(self) -> bool:
        """Whether every value is a number."""
        numbers = self.rows > self.missing
        return numbers and not set(self.texts) - set(self.gaps)

    @property
    def usual(self) -> float:
        """The median of the absolute values of a column of numbers, of those told apart."""
        found = sorted((abs(number_in(text) or 0.0), rows) for text, rows in self.values.items())
        left = sum(rows for _, rows in found) / 2
        for size, rows in found:
            left -= rows
            if left <= 0:
                return size
        return 0.0

    @property
    def distinct(self) -> list[str]:
        """The values, in the order of a registration; the first ones where there are many."""
        found = [value for value in self.values if value not in self.gaps]
        numbers = {value: number_in(value) for value in found}
        if None in numbers.values():
            return sorted(found)
        return sorted(found, key=lambda value: (numbers[value] or 0.0, value))

    def _number(self, text: str, count: int) -> None:
        number = number_in(text)
        if number is not None:
            self.largest = max(self.largest, abs(number))
            self.fractions |= not number.is_integer()
        elif text in self.texts or len(self.texts) < MAX_VALUES:
            self.texts[text] += count


@dataclass(frozen=True)
class Survey:
    """The columns of a table, in its order."""

    columns: tuple[Column, ...]
    rows: int
    complete: bool
    """Whether all rows were read."""
