"""Epsilon over several runs on the same data: their Renyi divergences added up, then converted."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.accountant import best_epsilon
from fedaudit.privacy.accounting.rdp import RDP_ORDERS

_ORDERS = np.array(RDP_ORDERS)


def composed_epsilon(curve: NDArray[np.float64], delta: float) -> float:
    """Epsilon at `delta` of a sum of curves at RDP_ORDERS (`SpendingPlan.curve`); 0 for no curves.

    Raises ValueError for a curve at other orders.
    """
    if curve.shape != _ORDERS.shape:
        raise ValueError(f"a curve has {len(_ORDERS)} orders, not {curve.size}")
    return best_epsilon(curve, _ORDERS, delta)[0] if curve.any() else 0.0
