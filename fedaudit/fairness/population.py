"""The held-out rows of a run. Confidential."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Population:
    """Rows whose figures by group are reported, whichever attribute the groups are of."""

    codes: Mapping[str, NDArray[np.int64]]
    """By attribute, [rows]: positions in its groups; -1 for a row that has none."""
    groups: Mapping[str, int]
    """By attribute, how many groups it has."""
    clients: NDArray[np.int64]
    """[rows]: the client that each row belongs to."""
    row_ids: NDArray[np.int64] | None = None
    """[rows]: the number of each row in the data, whatever a spec makes of them; None where rows
    cannot be told apart from one spec to another."""
    row_keys: NDArray[np.uint64] | None = None
    """[rows]: by what rows are told apart that share a number; None where none do."""

    def sizes(self, attribute: str) -> NDArray[np.int64]:
        """How many rows each group has: [groups]."""
        codes = self.codes[attribute]
        return np.bincount(codes[codes >= 0], minlength=self.groups[attribute])

    def clients_of(self, attribute: str) -> NDArray[np.int64]:
        """How many clients have rows in each group: [groups]."""
        codes = self.codes[attribute]
        known = codes >= 0
        pairs = _pairs(codes[known], self.clients[known])
        return np.bincount(pairs[0], minlength=self.groups[attribute])

    def crossed(self, part: NDArray[np.int64], *, parts: int) -> "Population":
        """The same rows by cells instead of groups: part * groups + group.

        `part` [rows]: below `parts`. Raises ValueError where there are other rows.
        """
        if part.shape != self.clients.shape:
            raise ValueError(f"{len(part)} rows have a part, and {len(self.clients)} are there")
        return replace(
            self,
            codes={
                name: np.where(codes >= 0, part * self.groups[name] + codes, -1)
                for name, codes in self.codes.items()
            },
            groups={name: parts * groups for name, groups in self.groups.items()},
        )

    def atoms(self, attributes: Sequence[str]) -> "Atoms":
        """The rows that no group of these attributes distinguishes, taken together."""
        of_row = np.zeros(len(self.clients), dtype=np.int64)
        for name in attributes:
            # Numbered anew each time, so that no product of sizes overflows.
            finer = of_row * (self.groups[name] + 1) + self.codes[name] + 1
            of_row = np.unique(finer, return_inverse=True)[1].reshape(-1)
        _, first = np.unique(of_row, return_index=True)
        of_pair, client_of_pair = _pairs(of_row, self.clients)
        return Atoms(
            codes={name: self.codes[name][first] for name in attributes},
            rows=np.bincount(of_row, minlength=len(first)),
            of_pair=of_pair,
            client_of_pair=client_of_pair,
        )


@dataclass(frozen=True, eq=False)
class Atoms:
    """Sets of rows that lie in the same group of every attribute: each group is a union of them."""

    codes: Mapping[str, NDArray[np.int64]]
    """By attribute, [atoms]: the group; -1 for none."""
    rows: NDArray[np.int64]
    """[atoms]"""
    of_pair: NDArray[np.int64]
    """[pairs]: the atom of each pair of an atom and a client that has rows in it, ascending."""
    client_of_pair: NDArray[np.int64]
    """[pairs]"""

    def __len__(self) -> int:
        return len(self.rows)

    def members(self, attribute: str, groups: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The atoms of each of some groups: [groups, atoms]."""
        members: NDArray[np.bool_] = self.codes[attribute] == groups[:, np.newaxis]
        return members

    @cached_property
    def clients(self) -> NDArray[np.int64]:
        """[atoms]: clients with rows in each."""
        return np.bincount(self.of_pair, minlength=len(self))

    def is_few(self, union: NDArray[np.bool_], *, rows: int, clients: int) -> bool:
        """Whether a union of atoms [atoms] has rows, but fewer than `rows`, or of fewer than
        `clients` clients."""
        size = int(self.rows[union].sum())
        if not size:
            return False
        if size < rows:
            return True
        return len(np.unique(self.client_of_pair[union[self.of_pair]])) < clients


def _pairs(
    numbers: NDArray[np.int64], clients: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each pair of a number and a client once, ascending: [pairs] and [pairs]."""
    width = int(clients.max(initial=0)) + 1
    found = np.unique(numbers * width + clients)
    return found // width, found % width


@dataclass(frozen=True, eq=False)
class PredictedRows:
    """Rows that have a group and were scored, in any order. Confidential."""

    groups: NDArray[np.int64]
    """[rows]: positions in the attribute's values."""
    truth: NDArray[np.bool_] | None
    """[rows]: whether the true outcome is favourable; None where none was declared."""
    predicted: NDArray[np.bool_] | None
    """[rows]: whether the predicted outcome is favourable; None with `truth`."""
    true_classes: NDArray[np.int64] | None
    """[rows]; None for regression."""
    predicted_classes: NDArray[np.int64] | None
    """[rows]; None for regression."""
