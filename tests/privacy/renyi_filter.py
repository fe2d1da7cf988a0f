"""The individual Renyi filter, charged round by round: what `longest_lasting` foretells."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.accounting.accountant import added_epsilon

# Adding up in another order may round differently by so much.
_ROUNDING = 1 - 1e-11


class RecordFilter:
    """What every record has spent so far, each at its own order; arrays [records]."""

    def __init__(self, budgets: ArrayLike, *, orders: ArrayLike, delta: float) -> None:
        """`orders`: the Renyi order of each record, above 1 and fixed; see `longest_lasting`."""
        self._orders = np.asarray(orders, dtype=np.float64)
        self._delta = delta
        self._limits = (budgets - added_epsilon(self._orders, delta)) * _ROUNDING
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
