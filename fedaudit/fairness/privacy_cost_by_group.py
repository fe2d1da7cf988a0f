"""What the training clients of each group went through: who bears the cost of training.

Where every client has rows of one group only, a group's figures are over its clients. Where clients
have rows of several groups, a client counts for each of them by its rows: a mean is that of a row
of the group, and a largest figure that of the clients that have any.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.disclosure import Disclosure, DisclosureRule
from fedaudit.fairness.permutation import Unit, unit_of


@dataclass(frozen=True, eq=False)
class Membership:
    """Which clients belong to which groups, and which groups are disclosed."""

    unit: Unit
    weights: NDArray[np.float64]
    """[clients, groups]: how much a client counts in a group's mean, 0 where it has no rows."""
    clients: NDArray[np.int64]
    """[groups]: clients with rows."""
    disclosure: Disclosure
    """By rows and by clients."""

    def mean(self, figures: NDArray[np.number]) -> NDArray[np.float64]:
        """The mean over each group of a figure per client [clients]; NaN without rows: [groups]."""
        with np.errstate(invalid="ignore"):
            sums = figures.astype(np.float64) @ self.weights
            means: NDArray[np.float64] = sums / self.weights.sum(axis=0)
        return means

    def total(self, figures: NDArray[np.integer]) -> NDArray[np.int64]:
        """The sum over the clients of each group: [groups]."""
        total: NDArray[np.int64] = figures.astype(np.int64) @ (self.weights > 0)
        return total

    def largest(self, figures: NDArray[np.number]) -> NDArray[np.number]:
        """The largest figure, none negative, of a client in each group; 0 without any: [groups]."""
        largest = np.zeros(self.weights.shape[1], dtype=figures.dtype)
        client, group = np.nonzero(self.weights)
        np.maximum.at(largest, group, figures[client])
        return largest


def membership(rows: NDArray[np.integer], rule: DisclosureRule) -> Membership:
    """Of rows per client and group [clients, groups]; clients that do not train have none.

    Suppressed are groups with too few rows or clients, and the smallest other where just one would
    be, or few rows together. Within the totals of an intersection's parts they are not looked at:
    whoever shows its figures must show none where one is suppressed.
    """
    unit = unit_of(rows)
    belongs = rows > 0
    pooled, clients = rows.sum(axis=0, dtype=np.int64), np.count_nonzero(belongs, axis=0)
    by_rows = rule.alone().decide(pooled, of="training rows")
    return Membership(
        unit=unit,
        weights=(belongs if unit == "client" else rows).astype(np.float64),
        clients=clients,
        disclosure=by_rows.of_clients(clients, of="training clients"),
    )
