"""Renyi differential privacy of (sampled) Gaussian sums, by dp-accounting.

Its curves are Mironov, Talwar and Zhang 2019 for Poisson samples and Wang, Balle and
Kasiviswanathan 2019 (theorem 27) for samples of a fixed size; its conversion is that of Balle et
al. 2020, clipped at 0. Theorem 27 is a bound that for large samples exceeds the divergence without
sampling; the smaller of the two is used here, because a sample never reveals more than the whole
(the divergence is quasi-convex: van Erven and Harremoes 2014, theorem 13).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.accountants.base import Accountant, Spending
from fedaudit.privacy.accounting.accountants.conversion import renyi_spending
from fedaudit.privacy.accounting.accountants.fixed_size import fixed_size_curve
from fedaudit.privacy.accounting.accountants.refusals import sampled_gaussian_refusal
from fedaudit.privacy.accounting.privacy_events import (
    Adjacency,
    Composed,
    DiscreteLaplace,
    Event,
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    NonPrivate,
    PoissonSampled,
    TwoStage,
    known_event,
)

_CLIPS_APART: dict[Adjacency, float] = {"add-or-remove-one": 1.0, "replace-one": 2.0}
"""The distance between neighbouring sums, in clips."""
RDP_ORDERS: tuple[float, ...] = (
    *(1 + tenths / 10 for tenths in range(1, 100)),
    *(float(order) for order in range(11, 64)),
    *(64.0, 80.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 1024.0),
)
"""Fractional orders serve large epsilons, large orders serve small epsilons."""


class RdpAccountant(Accountant):
    """The smallest epsilon over a grid of Renyi orders."""

    name = "rdp"

    def __init__(self, *, adjacency: Adjacency, orders: Sequence[float] = RDP_ORDERS) -> None:
        """`orders`: above 1, ascending."""
        super().__init__(adjacency=adjacency)
        if not orders or orders[0] <= 1 or any(np.diff(orders) <= 0):
            raise ValueError("orders must ascend and exceed 1")
        self._orders = tuple(float(order) for order in orders)

    def _refusal(self, event: Event) -> str | None:
        return sampled_gaussian_refusal(
            event, accountant=self.name, adjacency=self.adjacency, fixed_size=True
        )

    def _spent(self, counts: Mapping[Event, int], delta: float) -> Spending:
        from dp_accounting.rdp import compute_epsilon

        divergences = np.zeros(len(self._orders))
        for event, count in counts.items():
            divergences += count * event_curve(event, self._orders, self.adjacency)
        epsilon, order = compute_epsilon(self._orders, divergences, delta)
        return renyi_spending(
            float(epsilon),
            float(order),
            orders=np.array(self._orders),
            delta=delta,
            adjacency=self.adjacency,
            accountant=self.name,
        )


@lru_cache(maxsize=4096)
def event_curve(
    event: Event, orders: tuple[float, ...], adjacency: Adjacency
) -> NDArray[np.float64]:
    """The Renyi divergence of one event at each order: float64 [orders], read-only.

    Cached, because a run composes the same event round after round; a curve has about a KiB.
    """
    from dp_accounting import NeighboringRelation
    from dp_accounting.rdp import RdpAccountant as Library

    relation = {
        "add-or-remove-one": NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace-one": NeighboringRelation.REPLACE_ONE,
    }[adjacency]
    # The library's noise multiplier is relative to the sensitivity, two clips under replacement.
    clips = _CLIPS_APART[adjacency]
    if isinstance(event, FixedSizeSampled) and isinstance(event.event, Gaussian):
        rate, noise_multiplier = event.sample / event.population, event.event.noise_multiplier
        curve = fixed_size_curve(rate, noise_multiplier / clips, orders)
        curve = np.minimum(curve, event_curve(event.event, orders, adjacency))
    else:
        library = Library(list(orders), relation).compose(_library_event(event, clips=clips))
        curve = np.array(library._rdp, dtype=np.float64)
    curve.flags.writeable = False
    return curve


def _library_event(event: Event, *, clips: float) -> Any:
    """The event in dp-accounting's terms, for neighbouring sums that are `clips` clips apart."""
    import dp_accounting

    known = known_event(event)
    match known:
        case Gaussian():
            return dp_accounting.GaussianDpEvent(known.noise_multiplier / clips)
        case PoissonSampled():
            inner = _library_event(known.event, clips=clips)
            return dp_accounting.PoissonSampledDpEvent(known.rate, inner)
        case FixedSizeSampled():
            inner = _library_event(known.event, clips=clips)
            return dp_accounting.SampledWithoutReplacementDpEvent(
                known.population, known.sample, inner
            )
        case NonPrivate() | TwoStage() | DiscreteLaplace() | LaplaceL2() | Composed():
            raise TypeError(f"no Gaussian sum: {event}")
        case _:
            assert_never(known)
