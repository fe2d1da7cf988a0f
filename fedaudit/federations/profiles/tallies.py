"""Count the rows of a table batch by batch: clients, groups and target values."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedaudit.federations.errors import error_at

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


class ValueTally:
    """The target's distinct values, while they are few enough to be classes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._positions = Positions()
        self._rows = Counter()
        self.many = False
        """Whether there are more than `most` values; counting then stops."""

    def add(self, values: Sequence[str], codes: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """The value of each row, as a number; None from the point where there are too many."""
        if self.many:
            return None
        numbers = self._positions.of(values)[codes]
        self._rows.add(numbers)
        self.many = len(self._positions) > self._most
        return None if self.many else numbers

    @property
    def values(self) -> list[str]:
        """The values seen, in the order of their numbers."""
        return self._positions.values

    def rows(self) -> NDArray[np.int64]:
        """How often each was seen, [values]."""
        return self._rows.of(len(self._positions))
