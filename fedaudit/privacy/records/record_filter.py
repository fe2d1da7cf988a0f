"""Individual Renyi filter: how long each record stays before it would pass its own budget.

Feldman and Zrnic, "Individual privacy accounting via a Renyi filter" (2021): with an order fixed
for each record in advance, divergences add up even where each step's depends on the ones before,
and stopping in time is as private as never having planned more. Who has left reveals what was
spent, so the set of records that are still in is as secret as the data.
"""

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.accountants.conversion import divergence_limit
from fedaudit.privacy.accounting.accountants.two_stage import TwoStageRun

# Adding up in another order may change the sum by this much through rounding.
_ROUNDING = 1 - 1e-11


def longest_lasting(
    budgets: NDArray[np.float64], rates: NDArray[np.float64], run: TwoStageRun
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order at which each record stays longest, and the number of rounds it stays.

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
