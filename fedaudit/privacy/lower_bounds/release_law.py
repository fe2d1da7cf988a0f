"""What the releases of a mechanism tell of one unit: (sampled) Gaussian noise, composed.

The law is that of the strongest adversary of the guarantee, who knows everything but whether the
unit is there, or which of two it is. Upper bounds on it are the claim's; here bounds from below are
needed too, so that what is measured is never called more than it is.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from fedaudit.privacy.accounting.privacy_events import Adjacency
from fedaudit.privacy.lower_bounds.gaussian_trade_off import gaussian_epsilon

Curve = Callable[[float], float]
"""From the power of a test to the least chance of a false alarm with which it can be had."""

_LOSSES = 4000
"""Steps that the losses of one release are rounded to, in the direction that keeps a bound."""
_CURVE_POINTS = 150
_LARGEST_LOSS = 60.0
_MOST_RATIO = 1e3
_LEAST_RATIO = 1e-6


@dataclass(frozen=True, kw_only=True)
class ReleaseLaw:
    """`compositions` releases, each of which the unit enters with the chance `rate`."""

    ratio: float
    """How far apart the two neighbours move a release that the unit enters, over the standard
    deviation of the noise."""
    rate: float
    compositions: int
    adjacency: Adjacency

    @property
    def is_sampled(self) -> bool:
        """Whether secret coins decide if the unit enters a release."""
        return self.rate < 1

    @property
    def reach(self) -> int:
        """How many times its own length a unit's change moves a release."""
        return 2 if self.adjacency == "replace-one" else 1

    @property
    def mu(self) -> float:
        """Of Gaussian differential privacy; of a law that is not sampled."""
        return self.ratio * math.sqrt(self.compositions)

    def with_ratio(self, ratio: float) -> "ReleaseLaw":
        """The same with other noise."""
        return replace(self, ratio=ratio)

    def epsilon(self, delta: float) -> float:
        """The epsilon at `delta`: exact, or where it is sampled a lower bound by privacy loss
        distributions, rounded down."""
        if not self.ratio > 0:
            return 0.0
        if not self.is_sampled:
            return gaussian_epsilon(self.mu, delta)
        return _least_sampled_epsilon(self.with_ratio(min(self.ratio, _MOST_RATIO)), delta)

    def ratio_of_epsilon(self, epsilon: float, delta: float) -> float:
        """The ratio at which `epsilon` is reached at `delta`."""

        def excess(ratio: float) -> float:
            return self.with_ratio(ratio).epsilon(delta) - epsilon

        low = high = self.ratio
        while high < _MOST_RATIO and excess(high) < 0:
            low, high = high, 1.5 * high
        while low > _LEAST_RATIO and excess(low) > 0:
            low, high = low / 1.5, low
        if excess(high) < 0 or excess(low) > 0:
            return high if excess(high) < 0 else low
        return float(brentq(excess, low, high, xtol=1e-9, rtol=1e-4))

    def curve(self) -> Curve:
        """The trade-off between power and false alarms: exact, or where it is sampled a bound that
        no test passes."""
        if self.is_sampled:
            return _SampledCurve(self)
        mu = self.mu
        return lambda power: float(ndtr(ndtri(min(max(power, 0.0), 1.0)) - mu))


class _SampledCurve:
    """The trade-off of a sampled law, from its deltas at many epsilons."""

    def __init__(self, law: ReleaseLaw) -> None:
        self._epsilons, self._deltas = _profile(law)

    def __call__(self, power: float) -> float:
        """See `Curve`: the largest of the bounds that each epsilon gives, from both sides."""
        ahead = np.exp(-self._epsilons) * (power - self._deltas)
        behind = 1 - self._deltas - np.exp(self._epsilons) * (1 - power)
        return max(0.0, float(ahead.max()), float(behind.max()))


def _distribution(law: ReleaseLaw, *, pessimistic: bool) -> Any:
    import dp_accounting
    from dp_accounting.pld import privacy_loss_distribution as library

    relation = {
        "add-or-remove-one": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace-one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    }[law.adjacency]
    one = library.from_gaussian_mechanism(
        law.reach / law.ratio,
        sampling_prob=law.rate,
        pessimistic_estimate=pessimistic,
        use_connect_dots=pessimistic,
        value_discretization_interval=(law.ratio**2 / 2 + 10 * law.ratio) / _LOSSES,
        neighboring_relation=relation,
    )
    return one.self_compose(law.compositions)


@lru_cache(maxsize=1024)
def _least_sampled_epsilon(law: ReleaseLaw, delta: float) -> float:
    found = float(_distribution(law, pessimistic=False).get_epsilon_for_delta(delta))
    return max(0.0, found)


@lru_cache(maxsize=256)
def _profile(law: ReleaseLaw) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Epsilons, and upper bounds of the deltas at these."""
    epsilons = np.concatenate([[0.0], np.geomspace(1e-3, _LARGEST_LOSS, _CURVE_POINTS)])
    distribution = _distribution(law, pessimistic=True)
    deltas = np.asarray(distribution.get_delta_for_epsilon(epsilons.tolist()), dtype=np.float64)
    return epsilons, np.clip(deltas, 0.0, 1.0)
