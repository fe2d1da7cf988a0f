"""From Renyi differential privacy to epsilon and back, one order at a time.

Balle et al., "Hypothesis testing interpretations and Renyi differential privacy" (2020), theorem
21; also Canonne et al. 2020, proposition 12: a mechanism of Renyi divergence rho at order alpha is
(epsilon, delta)-private with

    epsilon = rho + log(1 - 1/alpha) - log(alpha * delta) / (alpha - 1).

The older epsilon = rho + log(1/delta) / (alpha - 1) (Mironov 2017) is never smaller.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.accounting.accountants.base import Spending
from fedaudit.privacy.accounting.privacy_events import Adjacency

_AT_EDGE = (
    "the best Renyi order, {order:g}, is the {edge} on the grid: the bound holds, but {beyond} "
    "orders could give a smaller epsilon"
)


def added_epsilon(orders: ArrayLike, delta: float) -> NDArray[np.float64]:
    """What the conversion adds to the Renyi divergence at each order: float64 [orders].

    The smallest of these is a floor: no epsilon below it can be shown on these orders.
    """
    alpha = np.asarray(orders, dtype=np.float64)
    added: NDArray[np.float64] = np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)
    return added


def divergence_limit(epsilon: ArrayLike, order: ArrayLike, delta: float) -> NDArray[np.float64]:
    """The divergence at an order that still gives this epsilon: float64, broadcast.

    Negative where the order cannot show so small an epsilon.
    """
    limit: NDArray[np.float64] = np.asarray(epsilon, dtype=np.float64) - added_epsilon(order, delta)
    return limit


def best_epsilon(
    divergences: NDArray[np.float64], orders: NDArray[np.float64], delta: float
) -> tuple[float, float]:
    """The smallest epsilon over the orders, not below 0, and its order.

    `divergences`: float64 [orders]; may hold infinities.
    """
    epsilons = divergences + added_epsilon(orders, delta)
    best = int(np.argmin(epsilons))
    return max(0.0, float(epsilons[best])), float(orders[best])


def renyi_spending(
    epsilon: float,
    order: float,
    *,
    orders: NDArray[np.float64],
    delta: float,
    adjacency: Adjacency,
    accountant: str,
) -> Spending:
    """A bound from the best of ascending orders, with a warning where that is at an edge."""
    warnings: tuple[str, ...] = ()
    if 0 < epsilon < np.inf:
        if order == orders[0]:
            warnings = (_AT_EDGE.format(order=order, edge="smallest", beyond="smaller"),)
        elif order == orders[-1]:
            warnings = (_AT_EDGE.format(order=order, edge="largest", beyond="larger"),)
    return Spending(epsilon, delta, adjacency, accountant, order, warnings)
