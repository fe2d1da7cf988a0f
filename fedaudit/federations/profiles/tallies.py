"""Count the rows of a table batch by batch: clients, groups, target values and outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedaudit.federations.classes import MAX_CLASSES, class_levels, find_classes
from fedaudit.federations.errors import error_at
from fedaudit.federations.favourable_outcomes import meets_bound, rules_of_groups
from fedaudit.federations.levels import Levels, number_in
from fedaudit.federations.reading.source_files import SourceFile
from fedaudit.federations.reading.table_rows import TableRows
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.fairness import GroupRule, Groups, Rule
from fedaudit.spec.table import Table

MAX_CLIENTS = 1_000_000
_UNSEEN = -1


class Positions:
    """Distinct values, numbered in order of appearance; an empty value is -1."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def values(self) -> list[str]:
        """In the order of their numbers."""
        return list(self._places)

    def of(self, values: Sequence[str]) -> NDArray[np.int64]:
        """The number of each value; new values get the next number."""
        places = self._places
        numbers = [places.setdefault(value, len(places)) if value else -1 for value in values]
        return np.array(numbers, dtype=np.int64)


class Counter:
    """How often each number was seen."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)

    def add(self, numbers: NDArray[np.int64]) -> None:
        """Count numbers from 0 up; -1 is ignored."""
        if numbers.size and numbers.min() < 0:
            numbers = numbers[numbers >= 0]
        found = np.bincount(numbers, minlength=len(self._counts))
        found[: len(self._counts)] += self._counts
        self._counts = found

    def of(self, size: int) -> NDArray[np.int64]:
        """The counts of the numbers below `size`."""
        counts = np.zeros(size, dtype=np.int64)
        counts[: len(self._counts)] = self._counts[:size]
        return counts


class ClientTally:
    """The clients that a column identifies."""

    def __init__(self, name: str, where: str) -> None:
        self.name = name
        self.where = where
        self._positions = Positions()
        self._kept = Counter()
        self._rows = 0

    def number(self, values: Sequence[str], codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The client of each row, as a number. Raises InvalidInputError for too many clients."""
        clients = self._positions.of(values)[codes]
        self._rows += len(codes)
        if len(self._positions) > MAX_CLIENTS:
            self._check_distinguishing()
            raise error_at(
                self.where,
                f"{self.name!r} has more than {MAX_CLIENTS} distinct values, and so many clients "
                "are allowed; name another column",
            )
        return clients

    def add(self, clients: NDArray[np.int64]) -> None:
        """Count rows that are not left out."""
        self._kept.add(clients)

    def rows(self) -> NDArray[np.int64]:
        """The rows of each client that has some, [clients]. Raises InvalidInputError.

        The column must identify clients: neither only one, nor one per row.
        """
        self._check_distinguishing()
        rows = self._kept.of(len(self._positions))
        return rows[rows > 0]

    @property
    def without_rows(self) -> int:
        """Clients all of whose rows were left out."""
        return int(np.count_nonzero(self._kept.of(len(self._positions)) == 0))

    def _check_distinguishing(self) -> None:
        if len(self._positions) == self._rows > 1:
            raise error_at(
                self.where,
                f"{self.name!r} is different in every one of the first {self._rows} rows, so each "
                "client would have one row; name the column that identifies clients, or deal rows "
                "to clients by `partition`",
            )


class GroupTally:
    """The groups of a sensitive attribute."""

    def __init__(self) -> None:
        self.missing = 0
        self.constant = True
        """Whether no client was seen with two values."""
        self._rows, self._scored, self._favourable = Counter(), Counter(), Counter()
        self._of_client = np.zeros(0, dtype=np.int64)

    def add(
        self,
        groups: NDArray[np.int64],
        clients: NDArray[np.int64] | None,
        *,
        scored: NDArray[np.bool_],
        favourable: NDArray[np.bool_],
    ) -> None:
        """Count rows: their group (-1 for none), their client and their outcome."""
        self.missing += int(np.count_nonzero(groups < 0))
        self._rows.add(groups)
        self._scored.add(groups[scored])
        self._favourable.add(groups[scored & favourable])
        if clients is None:
            self.constant = False
        elif self.constant and len(clients):
            self._compare(groups, clients)

    def counts(self, size: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Rows, rows that a rule applies to, and favourable ones among them, each [groups]."""
        return self._rows.of(size), self._scored.of(size), self._favourable.of(size)

    def _compare(self, groups: NDArray[np.int64], clients: NDArray[np.int64]) -> None:
        known = groups >= 0
        groups, clients = groups[known], clients[known]
        if not len(clients):
            return
        if (more := int(clients.max()) + 1 - len(self._of_client)) > 0:
            room = np.full(max(more, len(self._of_client)), _UNSEEN, dtype=np.int64)
            self._of_client = np.concatenate([self._of_client, room])
        fresh = self._of_client[clients] == _UNSEEN
        self._of_client[clients[fresh]] = groups[fresh]
        self.constant = bool((self._of_client[clients] == groups).all())


_WHERE = "/federation/target"
_MAX_WHOLE_NUMBERS = 100
_ROWS_PER_WHOLE_NUMBER = 10
_TWO = 2

GroupValues = Mapping[str, tuple[Sequence[str], NDArray[np.int64]]]
"""Sensitive attribute -> the groups of a batch, and each row's index among them (-1: none)."""
Outcomes = tuple[NDArray[np.bool_], NDArray[np.bool_]]
"""[rows]: to which rows a rule applies, and where the outcome is favourable."""


@dataclass(frozen=True, eq=False)
class TargetFound:
    """Results of the whole pass about the target."""

    classes: tuple[str, ...]
    """Empty for a numeric target."""
    rows: NDArray[np.int64]
    """[classes]"""
    positive_flipped: bool
    """Whether, of two classes, the favourable one is not the one that `outcomes` assumed."""
    no_rule: str | None
    """Why no outcome is favourable; None where there is a rule."""


class TargetPass:
    """Counts target values and applies `fairness.favourable` to rows as they come."""

    def __init__(self, source: Table, fairness: Groups) -> None:
        self._source = source
        self._fairness = fairness
        self._values, self._rows = Positions(), Counter()
        self._many = False
        """Whether there are more values than there may be classes; counting then stops."""
        self._not_a_number: InvalidInputError | None = None
        favourable = fairness.favourable
        if favourable is None and source.positive is not None:
            favourable = Rule(op="in", value=[source.positive])
        self._by_group = [] if isinstance(favourable, Rule | None) else favourable
        self._rules: Sequence[Rule | GroupRule] = self._by_group or (
            [favourable] if isinstance(favourable, Rule) else []
        )

    def outcomes(self, rows: TableRows, groups: GroupValues) -> Outcomes:
        """Count the rows, none of which has a gap here.

        Without a rule the second of two classes counts as favourable, until `found` says which it
        is. Raises InvalidInputError for values that are neither classes nor numbers.
        """
        numbers = self._numbers(rows)
        if not self._many:
            values, codes = rows.encoded(self._source.target, _WHERE)
            places = self._values.of(values)[codes]
            self._rows.add(places)
            self._many = len(self._values) > MAX_CLASSES
        if self._many:
            if numbers is None:
                raise self._not_a_number or ValueError("some value is no number")
            return self._judge_numbers(numbers, groups)
        if not self._rules:
            return np.ones(len(rows), dtype=np.bool_), places == 1
        rule = self._rule_of(groups, len(rows))
        table = np.array([_holds(one, values) for one in self._rules])
        return rule >= 0, table[rule, codes] & (rule >= 0)

    def found(self, source: SourceFile, attributes: Mapping[str, Sequence[str]]) -> TargetFound:
        """Classes and rule, with the checks of loading. Raises InvalidInputError.

        `attributes` are all groups of each attribute.
        """
        classes = self._classes(source)
        names = () if classes is None else classes.values
        counts = np.zeros(len(names), dtype=np.int64)
        if classes is not None:
            counts[classes.codes] = self._rows.of(len(self._values))
        self._check_numbers()
        if self._fairness.favourable is not None:
            rules_of_groups(self._fairness, names, attributes)
        positive_flipped = classes is not None and not self._rules and classes.codes[0] == 1
        return TargetFound(names, counts, positive_flipped, self._no_rule(names))

    def _check_numbers(self) -> None:
        """Raises InvalidInputError for a bound on a numeric target if some cell is not a number.

        Does not list the other values, as it would list classes: they are measurements.
        """
        if self._not_a_number is None or all(rule.lists_values for rule in self._rules):
            return
        if any(number_in(value) is not None for value in self._values.values):
            raise self._not_a_number

    def _numbers(self, rows: TableRows) -> NDArray[np.float64] | None:
        if self._not_a_number is not None:
            return None
        try:
            return rows.numbers(self._source.target, _WHERE)
        except InvalidInputError as error:
            self._not_a_number = error
            return None

    def _judge_numbers(self, numbers: NDArray[np.float64], groups: GroupValues) -> Outcomes:
        rule = self._rule_of(groups, len(numbers))
        favourable = np.zeros(len(numbers), dtype=np.bool_)
        for place, one in enumerate(self._rules):
            if not isinstance(one.value, list | str):  # `found` refuses the others
                bound = float(one.value)
                favourable |= (rule == place) & meets_bound(numbers, one.op, bound)
        return rule >= 0, favourable

    def _rule_of(self, groups: GroupValues, rows: int) -> NDArray[np.int64]:
        """Which rule applies to each row, [rows]; -1 for none."""
        if not self._by_group:
            return np.full(rows, 0 if self._rules else -1, dtype=np.int64)
        (name,) = self._by_group[0].group  # the spec allows rules about one attribute only
        values, codes = groups[name]
        place = {rule.group[name]: place for place, rule in enumerate(self._by_group)}
        return np.array([*(place.get(value, -1) for value in values), -1], dtype=np.int64)[codes]

    def _classes(self, source: SourceFile) -> Levels | None:
        """The values as classes, by the checks of loading; None for numbers."""
        if not self._are_classes():
            return None
        values = self._values.values
        column = {self._source.target: pa.array(values, pa.string())}
        rows = TableRows(source, column, np.arange(1, len(values) + 1))
        return class_levels(rows, self._source.target, positive=self._source.positive)

    def _are_classes(self) -> bool:
        """Whether the target is treated as classes; for a training run its model decides.

        Numbers are treated as classes if there are two of them, or few whole ones that repeat
        often.
        """
        if self._source.positive is not None or any(rule.lists_values for rule in self._rules):
            return True
        if self._source.target in self._source.labels:
            return True
        if self._many:
            return False
        values = self._values.values
        if self._not_a_number is not None or len(values) <= _TWO:
            return True
        rows = int(self._rows.of(len(values)).sum())
        return len(values) <= min(_MAX_WHOLE_NUMBERS, rows // _ROWS_PER_WHOLE_NUMBER) and all(
            (number_in(value) or 0.0).is_integer() for value in values
        )

    def _no_rule(self, classes: Sequence[str]) -> str | None:
        if self._rules or len(classes) == _TWO:
            return None
        what = f"has {len(classes)} classes" if classes else "is a number"
        return f"the target {what}, and `fairness.favourable` says not which outcome is favourable"


def _holds(rule: Rule | GroupRule, values: Sequence[str]) -> list[bool]:
    """Which target values are favourable by a rule."""
    if isinstance(rule.value, list):
        labels = [str(label) for label in rule.value]
        return [max(find_classes([value], labels)) >= 0 for value in values]
    bound, numbers = float(rule.value), [number_in(value) for value in values]
    found = np.array([np.nan if number is None else number for number in numbers])
    return [bool(holds) for holds in meets_bound(found, rule.op, bound)]
