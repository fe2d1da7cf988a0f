"""Renyi divergences of samples of a fixed size, by dp-accounting's theorem 27, once for each order.

The library computes each fractional order from the two whole ones around it, and for each of these
all forward differences anew, of which the largest order's contain every other's. Here both are kept
within one curve: the same calls give the same numbers, to the last bit
(`tests/privacy/accounting/test_fixed_size.py`), in less than half of the time.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_MOST_EXACT = 256
"""The library's: beyond, it takes a simpler bound without differences."""


def fixed_size_curve(
    rate: float, noise_multiplier: float, orders: Sequence[float]
) -> NDArray[np.float64]:
    """The divergence at each order, of a sample of `rate` of all units under replacement.

    `noise_multiplier`: the standard deviation over the distance of neighbouring sums. `orders`:
    finite and above 1.
    """
    if rate == 1.0:
        return np.array([order / (2 * noise_multiplier**2) for order in orders])
    whole = {bound for order in orders for bound in (math.floor(order), math.ceil(order))}
    exact = [order for order in whole if order <= _MOST_EXACT]
    logs = _Logs(rate, noise_multiplier, max(exact, default=2))
    known = {order: logs.of(order) for order in sorted(whole)}
    return np.array([_between(order, known) / (order - 1) for order in orders])


def _between(order: float, known: dict[int, float]) -> float:
    """Corollary 10 of Wang, Balle and Kasiviswanathan: interpolation bounds what lies between."""
    if float(order).is_integer():
        return known[int(order)]
    low, high = math.floor(order), math.ceil(order)
    share = order - low
    return (1 - share) * known[low] + share * known[high]


class _Logs:
    """log(A) of theorem 27 at whole orders; as the library's, term by term."""

    def __init__(self, rate: float, noise_multiplier: float, most: int) -> None:
        from dp_accounting.rdp import rdp_privacy_accountant as library

        self._library = library
        self._rate = rate
        self._double_variance = 2.0 * noise_multiplier**2
        self._deltas, _ = library._get_forward_diffs(self._moment, most)

    def of(self, order: int) -> float:
        """At one order; 0 at the first."""
        if order == 1:
            return 0.0
        total: float = 0
        for place in range(2, order + 1):
            term = self._second(order) if place == 2 else self._later(place, order)
            total = self._library._log_add(total, term)
        return float(total)

    def _second(self, order: int) -> float:
        divergence = 2.0 / self._double_variance
        less_one = divergence + math.log1p(-np.exp(-divergence))
        least = np.minimum(np.log(4) + less_one, divergence + np.log(2))
        return float(2 * np.log(self._rate) + self._library._log_comb(order, 2) + least)

    def _later(self, place: int, order: int) -> float:
        least = np.log(2) + self._moment(place - 1)
        if order <= _MOST_EXACT:
            low = self._deltas[int(2 * np.floor(place / 2.0)) - 1]
            high = self._deltas[int(2 * np.ceil(place / 2.0)) - 1]
            least = np.minimum(np.log(4) + 0.5 * (low + high), least)
        drawn = place * np.log(self._rate) + self._library._log_comb(order, place)
        return float(least + drawn)

    def _moment(self, place: float) -> float:
        return place * 1.0 * (place + 1) / self._double_variance
