"""What the columns of a table hold, and what they seem to be, by names and values.

Which column is client key, target or sensitive is a guess from words; a person decides.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedaudit.federations.levels import number_in
from fedaudit.federations.reading.source_files import SourceFile

if TYPE_CHECKING:
    from fedaudit.federations.reading.table_rows import TableRows

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


MAX_SURVEYED_COLUMNS = 2000
_WHERE = "/federation/path"


def survey_table(file: SourceFile, *, header: bool, most_rows: int) -> Survey:
    """The columns of at most `most_rows` rows. Raises InvalidInputError for what is no table."""
    # Imported where it is used: the API starts without pyarrow.
    from fedaudit.federations.reading.table_files import TableFile

    table = TableFile(file, header=header)
    if len(table.names) > MAX_SURVEYED_COLUMNS:
        raise file.fault(
            f"has {len(table.names)} columns, and a registration is proposed for "
            f"{MAX_SURVEYED_COLUMNS} at most; write it yourself, or take out columns"
        )
    columns = tuple(Column(name) for name in table.names)
    rows, complete = 0, True
    for batch in table.batches(table.names):
        complete = rows + len(batch) <= most_rows
        read = batch if complete else batch.part(0, most_rows - rows)
        rows += len(read)
        for column in columns:
            column.add(*_counted(read, column.name))
        if not complete:
            break
    return Survey(columns, rows, complete)


def _counted(rows: "TableRows", name: str) -> tuple[list[str], list[int]]:
    """The distinct texts of a column and how many rows have each."""
    import pyarrow.compute as pc

    counts: Any = pc.value_counts(rows.text(name, _WHERE))
    return counts.field("values").to_pylist(), counts.field("counts").to_pylist()


MAX_GROUP_VALUES = 100
MAX_CLASS_VALUES = 20
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


def _words(text: str) -> list[str]:
    return text.split()


_SENSITIVE = frozenset(
    _words(
        """
    sex gender female male race racial rac ethnic ethnicity hispanic hisp black white asian
    colour color skin age agep religion religious faith caste disability disabled dis
    nationality nation national native nativity citizen citizenship cit immigrant foreign
    marital married mar orientation pregnant veteran language zip zipcode postcode
    """
    )
)
_CLIENTS = _words(
    """
    client hospital site centre center clinic provider institution bank branch school
    university writer device user customer subject patient person household employer company
    department store organisation organization state province county region district city town
    village country zip zipcode postcode
"""
)
_TARGETS = _words(
    """
    target label class outcome y response recid recidivism default readmitted readmission
    approved approval hired admitted admission churn fraud diagnosis diagnosed disease death
    died mortality income pincp earnings salary wage passed pass result decision grade credit
    risk score price cost charges payments
"""
)
_BAD = frozenset(
    _words(
        """
    recid recidivism default readmitted readmission churn fraud diagnosis diagnosed disease
    death died mortality risk denied rejected arrest arrested dropout
    """
    )
)
_YES = ("yes", "y", "true", "t", "1", "1.0", "good", "approved", "pass", "passed", "high", ">50k")
_NO = ("no", "n", "false", "f", "0", "0.0", "bad", "denied", "fail", "failed", "low", "<=50k")


def words_of(name: str) -> list[str]:
    """The words in a column's name, in small letters: `two_year_recid`, `AgeGroup`."""
    return [word.casefold() for word in _WORD.findall(name)]


def client_candidates(columns: Sequence[Column]) -> list[Column]:
    """Columns that may name clients, the likeliest first: named so, and with rows to each."""
    return _named([column for column in columns if _names_clients(column)], _CLIENTS)


def target_candidates(columns: Sequence[Column]) -> list[Column]:
    """Columns that may be the target, the likeliest first; the last column where none is named
    so."""
    possible = [column for column in reversed(columns) if _may_be_target(column)]
    return _named(possible, _TARGETS) or possible[:1]


def _named(columns: Sequence[Column], known: Sequence[str]) -> list[Column]:
    """The columns whose name has a known word, in the order of these words."""
    words = [
        [known.index(one) for one in words_of(column.name) if one in known] for column in columns
    ]
    found = [(min(places), place) for place, places in enumerate(words) if places]
    return [columns[place] for _, place in sorted(found)]


def sensitive_word(column: Column) -> str | None:
    """The word by which a column seems to be sensitive."""
    return next((word for word in words_of(column.name) if word in _SENSITIVE), None)


def good_class(column: Column) -> tuple[str, str]:
    """Of a target's two classes the one that seems good for people, and why."""
    first, last = column.distinct
    yes = _spelled(_YES, (first, last)) or last
    no = _spelled(_NO, (first, last)) or (first if yes == last else last)
    bad = next((word for word in words_of(column.name) if word in _BAD), None)
    if bad is not None:
        return no, f"`{bad}` in the name sounds bad for people, so the other class is good"
    return yes, "nothing in the name sounds bad for people"


def _names_clients(column: Column) -> bool:
    """At least two, and on average two rows to each."""
    present = column.rows - column.missing
    if column.many or column.fractions:
        return False
    return 2 <= len(column.distinct) <= present / 2


def _may_be_target(column: Column) -> bool:
    several = len(column.distinct) >= 2
    return several and (column.numeric or (not column.many and len(column.distinct) <= 100))


def _spelled(words: Sequence[str], values: Sequence[str]) -> str | None:
    found = [value for value in values if value.casefold() in words]
    return found[0] if len(found) == 1 else None
