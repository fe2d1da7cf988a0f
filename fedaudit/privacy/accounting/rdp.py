"""Renyi differential privacy of (sampled) Gaussian sums, by dp-accounting.

Its curves are Mironov, Talwar and Zhang 2019 for Poisson samples and Wang, Balle and
Kasiviswanathan 2019 (theorem 27) for samples of a fixed size; its conversion is that of Balle et
al. 2020, clipped at 0. Theorem 27 is a bound that for large samples exceeds the divergence without
sampling; the smaller of the two is used here, because a sample never reveals more than the whole
(the divergence is quasi-convex: van Erven and Harremoes 2014, theorem 13).
"""

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.accountant import (
    Accountant,
    Spending,
    best_epsilon,
    renyi_spending,
    sampled_gaussian_refusal,
)
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
    RandomAllocated,
    Rotated,
    TwoStage,
    known_event,
)
from fedaudit.privacy.accounting.random_allocation import allocation_curve

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
    from dp_accounting.rdp import RdpAccountant as Library

    logging.getLogger("absl").addFilter(_is_no_excluded_order)
    # The library's noise multiplier is relative to the sensitivity, two clips under replacement.
    clips = _CLIPS_APART[adjacency]
    if isinstance(event, RandomAllocated) and isinstance(event.event, Gaussian):
        curve = allocation_curve(event.rounds, event.event.noise_multiplier, orders)
    else:
        library = Library(list(orders), library_relation(adjacency))
        library.compose(library_event(event, clips=clips))
        curve = np.array(library._rdp, dtype=np.float64)
        if isinstance(event, FixedSizeSampled):
            curve = np.minimum(curve, event_curve(event.event, orders, adjacency))
    curve.flags.writeable = False
    return curve


def _is_no_excluded_order(record: logging.LogRecord) -> bool:
    """False of the library's warning that it leaves out an order whose series does not converge.
    The bound holds by the others, and a search for a noise multiplier would say so hundreds of
    times."""
    return "Excluding this order" not in str(record.msg)


def composed_epsilon(curve: NDArray[np.float64], delta: float) -> float:
    """Epsilon at `delta` over several runs on the same data: of the sum of their curves at
    RDP_ORDERS (`SpendingPlan.curve`); 0 for no curves.

    Raises ValueError for a curve at other orders.
    """
    orders = np.array(RDP_ORDERS)
    if curve.shape != orders.shape:
        raise ValueError(f"a curve has {len(orders)} orders, not {curve.size}")
    return best_epsilon(curve, orders, delta)[0] if curve.any() else 0.0


def library_relation(adjacency: Adjacency) -> Any:
    """The adjacency in dp-accounting's terms."""
    from dp_accounting import NeighboringRelation

    match adjacency:
        case "add-or-remove-one":
            return NeighboringRelation.ADD_OR_REMOVE_ONE
        case "replace-one":
            return NeighboringRelation.REPLACE_ONE
        case _:
            assert_never(adjacency)


def library_event(event: Event, *, clips: float) -> Any:
    """The event in dp-accounting's terms, for neighbouring sums that are `clips` clips apart."""
    import dp_accounting

    known = known_event(event)
    match known:
        case Gaussian():
            return dp_accounting.GaussianDpEvent(known.noise_multiplier / clips)
        case Rotated():  # once a block, whatever its noise is correlated with
            return library_event(known.event, clips=clips)
        case PoissonSampled():
            inner = library_event(known.event, clips=clips)
            return dp_accounting.PoissonSampledDpEvent(known.rate, inner)
        case FixedSizeSampled():
            inner = library_event(known.event, clips=clips)
            return dp_accounting.SampledWithoutReplacementDpEvent(
                known.population, known.sample, inner
            )
        case (
            NonPrivate()
            | RandomAllocated()
            | TwoStage()
            | DiscreteLaplace()
            | LaplaceL2()
            | Composed()
        ):
            raise TypeError(f"no Gaussian sum of the library's: {event}")
        case _:
            assert_never(known)
