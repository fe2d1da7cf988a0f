"""What earlier reports on the same data have disclosed, and what a further one may add.

Two reports whose groups differ in few rows give these rows away, as two groups of one report do: a
cut moved from 83 to 84, or one client more that is held out. The same holds for two that judge one
group by rules that differ for few of its rows. So every set of rows whose figures were disclosed is
remembered, with those of them whose outcome was favourable, and one that is too near to another is
not disclosed beside it. Sets are compared in pairs. Of groups between edges, all that lie beside
each other are such a set too; other sums of several groups are not looked at.
"""

import hashlib
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure
from fedaudit.fairness.population import Population


@dataclass(frozen=True, eq=False)
class RowSet:
    """Some rows of the data, by their numbers. Confidential."""

    packed: NDArray[np.uint8]
    """A bit for every number, from 0 up; without zeros behind the last row."""

    @classmethod
    def of(cls, row_ids: NDArray[np.int64]) -> "RowSet":
        """The rows with these numbers, each at least 0."""
        bits = np.zeros(int(row_ids.max(initial=-1)) + 1, dtype=np.bool_)
        bits[row_ids] = True
        return cls(np.packbits(bits))

    @classmethod
    def from_bytes(cls, stored: bytes) -> "RowSet":
        """What `as_bytes` made. Raises zlib.error for anything else."""
        return cls(np.frombuffer(zlib.decompress(stored), dtype=np.uint8))

    def as_bytes(self) -> bytes:
        """To be stored."""
        return zlib.compress(self.packed.tobytes(), level=1)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the rows, in hexadecimal: equal sets have equal ones."""
        return hashlib.sha256(self.packed.tobytes()).hexdigest()

    @cached_property
    def rows(self) -> int:
        """How many rows it has."""
        return int(np.bitwise_count(self.packed).sum())

    def differing(self, other: "RowSet") -> NDArray[np.uint8]:
        """The rows that only one of the two has, packed."""
        short, long = sorted((self.packed, other.packed), key=len)
        found = long.copy()
        found[: len(short)] ^= short
        return found


@dataclass(frozen=True, eq=False)
class DisclosedRows:
    """Rows whose figures are disclosed together. Confidential."""

    rows: RowSet
    favourable: RowSet
    """Those of them whose true outcome is favourable; none where no outcome was declared."""

    @property
    def key(self) -> tuple[str, str]:
        """Equal for what discloses the same."""
        return self.rows.digest, self.favourable.digest


class Neighbourhood:
    """When figures of two sets of rows are too near to each other to be disclosed both."""

    def __init__(self, client_of: NDArray[np.int64], *, rows: int, clients: int) -> None:
        """Few are fewer than `rows`, or of fewer than `clients` clients.

        `client_of` [row numbers]: the client of each row of the data, held out or not; -1 for rows
        that the spec leaves out.
        """
        self._rows, self._clients, self._client_of = rows, clients, client_of
        known = client_of[client_of >= 0]
        longest = int(np.bincount(known).max(initial=0))
        self._most = len(client_of) - len(known) + (clients - 1) * longest
        """Rows that fewer than so many clients can have, with all that nobody is known of."""

    def is_near(self, one: DisclosedRows, other: DisclosedRows) -> bool:
        """Whether they differ, and only in few rows; or are the same rows, judged alike but for
        few.

        The clients of rows that this spec leaves out are unknown, and taken to be none.
        """
        if one.rows.digest != other.rows.digest:
            return self._differ_in_few(one.rows, other.rows)
        return self._differ_in_few(one.favourable, other.favourable)

    def _differ_in_few(self, one: RowSet, other: RowSet) -> bool:
        largest = 8 * max(len(one.packed), len(other.packed))
        beyond = max(0, largest - len(self._client_of))
        bound = max(self._rows, self._most + beyond + 1)
        if abs(one.rows - other.rows) >= bound:
            return False
        differing = one.differing(other)
        count = int(np.bitwise_count(differing).sum())
        if count == 0 or count < self._rows:
            return count > 0
        if self._clients < 2 or count >= bound:
            return False
        places = np.flatnonzero(np.unpackbits(differing))
        known = self._client_of[places[places < len(self._client_of)]]
        known = known[known >= 0]
        if self._clients == 2:
            return not (known[1:] != known[:1]).any()
        return len(np.unique(known)) < self._clients


def disclosed_sets(
    population: Population,
    disclosures: Mapping[str, Disclosure],
    favourable: NDArray[np.bool_],
    *,
    ordered: Collection[str] = (),
) -> dict[str, list[DisclosedRows]]:
    """By attribute, the rows of every group whose figures are disclosed, and all of its rows.

    `favourable` [rows]: whether the true outcome is. `ordered`: attributes that were cut at edges,
    of which every group and those beside it add up to another cut: their sums are disclosed too, as
    far as all of their groups are. Attributes of which nothing is disclosed have
    none. Raises ValueError as `Neighbourhood`.
    """
    ids = population.row_ids
    if ids is None:
        raise ValueError("rows without numbers cannot be remembered")
    everybody = np.ones(len(ids), dtype=np.bool_)
    found = {}
    for name, one in disclosures.items():
        groups = np.flatnonzero(one.shown & (one.rows > 0))
        if len(groups):
            members = [population.codes[name] == group for group in groups]
            if name in ordered:
                members += _runs_of(population.codes[name], groups)
            found[name] = [
                DisclosedRows(RowSet.of(ids[rows]), RowSet.of(ids[rows & favourable]))
                for rows in (*members, everybody)
            ]
    return found


def _runs_of(codes: NDArray[np.int64], groups: NDArray[np.int64]) -> list[NDArray[np.bool_]]:
    """The rows of every two or more shown groups that lie beside each other."""
    shown = set(groups.tolist())
    found = []
    for first in groups.tolist():
        last = first + 1
        while last in shown:
            found.append((codes >= first) & (codes <= last))
            last += 1
    return found


def conflicting(
    sets: Mapping[str, Collection[DisclosedRows]],
    earlier: Iterable[DisclosedRows],
    neighbourhood: Neighbourhood,
) -> set[str]:
    """The attributes with a set that is too near to one that was disclosed before.

    What is disclosed once more gives nothing away beside itself.
    """
    found: set[str] = set()
    same = {one.key for own in sets.values() for one in own}
    for before in earlier:
        if before.key in same:
            continue
        for name, own in sets.items():
            if name not in found and any(neighbourhood.is_near(one, before) for one in own):
                found.add(name)
    return found
