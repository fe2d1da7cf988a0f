"""Individual Renyi filter: a record leaves before it would pass its own budget.

Feldman and Zrnic, "Individual privacy accounting via a Renyi filter" (2021): with an order fixed
for each record in advance, divergences add up even where each step's depends on the ones before,
and stopping in time is as private as never having planned more. Who has left tells what was spent,
so the set of records that are still in is as secret as the data.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.accountants.conversion import added_epsilon, divergence_limit
from fedaudit.privacy.accountants.two_stage import TwoStageRun

# Adding up in another order may round differently by so much.
_ROUNDING = 1 - 1e-11


class RecordFilter:
    """What every record has spent so far, each at its own order; arrays [records]."""

    def __init__(self, budgets: ArrayLike, *, orders: ArrayLike, delta: float) -> None:
        """`orders`: the Renyi order of each record, above 1 and fixed; see `longest_lasting`."""
        self._orders = np.asarray(orders, dtype=np.float64)
        self._delta = delta
        self._limits = divergence_limit(budgets, self._orders, delta) * _ROUNDING
        self._spent = np.zeros(self._limits.shape)
        self._staying = self._limits > 0

    @property
    def staying(self) -> NDArray[np.bool_]:
        """Records that have not left."""
        return self._staying.copy()

    def charge(
        self, costs: ArrayLike, *, among: NDArray[np.bool_] | None = None
    ) -> NDArray[np.bool_]:
        """Charge a round and answer who takes part in it; nobody else may.

        `costs`: the divergence of the round for each record at its order, not negative. `among`:
        the records that the round would use, all by default. A record among them whose limit has
        no room for its cost leaves for good, before the round.
        """
        cost = np.broadcast_to(np.asarray(costs, dtype=np.float64), self._spent.shape)
        if not (cost >= 0).all():
            raise ValueError("costs must be numbers, not negative")
        asked = self._staying if among is None else self._staying & among
        room = self._spent + cost <= self._limits
        taking = asked & room
        self._staying = self._staying & (room | ~asked)
        self._spent = np.where(taking, self._spent + cost, self._spent)
        return taking

    def epsilons(self) -> NDArray[np.float64]:
        """What every record has spent, never more than its budget: float64 [records]."""
        epsilon = np.maximum(self._spent + added_epsilon(self._orders, self._delta), 0.0)
        return np.where(self._spent > 0, epsilon, 0.0)


def longest_lasting(
    budgets: NDArray[np.float64], rates: NDArray[np.float64], run: TwoStageRun
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order at which each record lasts longest, and for how many rounds.

    `budgets`, `rates`: [records]. Returns the orders and rounds, 0 .. `run.rounds`, of a filter
    that charges every round the divergence of the record's rate. Both follow from public numbers
    and the record's own budget.
    """
    best_order = np.full(len(budgets), run.orders[0], dtype=np.int64)
    best_rounds = np.full(len(budgets), -1, dtype=np.int64)
    distinct, position = np.unique(rates, return_inverse=True)
    for order in run.orders:
        cost = run.divergence(distinct, order)[position]
        limit = np.maximum(divergence_limit(budgets, order, run.delta) * _ROUNDING, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            lasts = np.where(cost > 0, np.floor(limit / cost * _ROUNDING), np.inf)
        rounds = np.minimum(lasts, run.rounds).astype(np.int64)
        longer = rounds > best_rounds
        best_order[longer] = order
        best_rounds[longer] = rounds[longer]
    return best_order, best_rounds
