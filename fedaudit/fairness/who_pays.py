"""What the training clients of each group went through: who bears the cost of training.

Where every client has rows of one group only, a group's figures are over its clients. Where clients
have rows of several groups, a client counts for each of them by its rows: a mean is that of a row
of the group, and a largest figure that of the clients that have any.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.client_averages import FEWEST_CLIENTS
from fedaudit.fairness.permutation import Unit, unit_of
from fedaudit.fairness.suppression import complemented, shown_groups


@dataclass(frozen=True, eq=False)
class Membership:
    """Which clients belong to which groups, and which groups may be shown."""

    unit: Unit
    weights: NDArray[np.float64]
    """[clients, groups]: how much a client counts in a group's mean, 0 where it has no rows."""
    clients: NDArray[np.int64]
    """[groups]: clients with rows."""
    shown: NDArray[np.bool_]
    """[groups]"""

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


def membership(rows: NDArray[np.integer], *, minimum_group_size: int) -> Membership:
    """Of rows per client and group [clients, groups]; clients that do not train have none.

    Hidden are groups with fewer than `minimum_group_size` rows or FEWEST_CLIENTS clients, and the
    smallest other where just one would be, or few rows together.
    """
    unit = unit_of(rows)
    belongs = rows > 0
    pooled, clients = rows.sum(axis=0, dtype=np.int64), np.count_nonzero(belongs, axis=0)
    large = shown_groups(pooled, minimum_group_size=minimum_group_size)
    return Membership(
        unit=unit,
        weights=(belongs if unit == "client" else rows).astype(np.float64),
        clients=clients,
        shown=complemented(
            large & (clients >= FEWEST_CLIENTS), pooled, minimum_group_size=minimum_group_size
        ),
    )
