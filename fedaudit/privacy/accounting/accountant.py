"""Accountants of (epsilon, delta)-differential privacy: their interface, Renyi orders, and losses.

An accountant is made for one adjacency, states before composing which events it supports under it,
and gives an upper bound on epsilon for everything composed so far. Metric privacy has no such
accountant: its leakage is not an epsilon (`fedaudit.privacy.leakage`).

From Renyi differential privacy to epsilon and back, one order at a time: Balle et al., "Hypothesis
testing interpretations and Renyi differential privacy" (2020), theorem 21; also Canonne et al.
2020, proposition 12: a mechanism of Renyi divergence rho at order alpha is (epsilon, delta)-private
with

    epsilon = rho + log(1 - 1/alpha) - log(alpha * delta) / (alpha - 1).

The older epsilon = rho + log(1/delta) / (alpha - 1) (Mironov 2017) is never smaller.

Renyi differential privacy of (sampled) Gaussian sums, by dp-accounting.

Its curves are Mironov, Talwar and Zhang 2019 for Poisson samples and Wang, Balle and
Kasiviswanathan 2019 (theorem 27) for samples of a fixed size; its conversion is that of Balle et
al. 2020, clipped at 0. Theorem 27 is a bound that for large samples exceeds the divergence without
sampling; the smaller of the two is used here, because a sample never reveals more than the whole
(the divergence is quasi-convex: van Erven and Harremoes 2014, theorem 13).

Privacy loss distributions of (sampled) Gaussian sums, composed by dp-accounting.

Tighter than Renyi orders. Losses are rounded up to a grid (a pessimistic estimate), so the figure
is an upper bound.
"""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Self, assert_never

import numpy as np
from numpy.typing import ArrayLike

from fedaudit.arrays import Floats
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
from fedaudit.privacy.accounting.random_allocation import (
    COARSE,
    FINE,
    allocation_curve,
    allocation_loss,
)
from fedaudit.spec.privacy import AccountantName


class UnsupportedEventError(ValueError):
    """The accountant does not support this event; the message names a pair that it supports."""


@dataclass(frozen=True)
class Spending:
    """An upper bound on epsilon, and what a report must add about it."""

    epsilon: float
    """Infinite where something was released without a mechanism."""
    order: float | None = None
    """The Renyi order that gave the bound; None where the accountant uses no orders."""
    warnings: tuple[str, ...] = ()


class Accountant(ABC):
    """Composes events under one adjacency."""

    name: ClassVar[str]

    def __init__(self, *, adjacency: Adjacency) -> None:
        self.adjacency: Adjacency = adjacency
        """Adjacency of every figure of this accountant."""
        self._counts: dict[Event, int] = {}

    def unsupported(self, event: Event) -> str | None:
        """Why the event cannot be composed, and which pair is supported; None where it can."""
        if isinstance(event, Composed):
            event, _ = event.flattened()
        return None if isinstance(event, NonPrivate) else self._refusal(event)

    def compose(self, event: Event, count: int = 1) -> Self:
        """Compose the event `count` times, zero or more. Raises UnsupportedEventError."""
        reason = self.unsupported(event)
        if reason is not None:
            raise UnsupportedEventError(reason)
        if count < 0:
            raise ValueError(f"count = {count} must not be negative; spending cannot be undone")
        if isinstance(event, Composed):
            event, inner = event.flattened()
            count *= inner
        if count:
            self._counts[event] = self._counts.get(event, 0) + count
        return self

    def epsilon(self, delta: float) -> float:
        """An upper bound on epsilon at this delta for everything composed so far."""
        return self.spent(delta).epsilon

    def spent(self, delta: float) -> Spending:
        """The bound with its order and warnings. Raises ValueError unless 0 < delta < 1."""
        if not 0 < delta < 1:
            raise ValueError(f"delta = {delta} must lie between 0 and 1")
        if not self._counts:
            return Spending(0.0)
        if any(isinstance(event, NonPrivate) for event in self._counts):
            return Spending(math.inf)
        return self._spent(self._counts, delta)

    @abstractmethod
    def _refusal(self, event: Event) -> str | None:
        """Why the event, which is not a composition, cannot be composed; None where it can."""

    @abstractmethod
    def _spent(self, counts: Mapping[Event, int], delta: float) -> Spending:
        """The bound for these events, of which there is at least one, each supported."""


METRIC_REFUSAL = (
    "metric privacy ('laplace-l2') is counted as leakage, which is no epsilon of an (epsilon, "
    "delta) guarantee; keep it apart (fedaudit.privacy.leakage)"
)


def sampled_gaussian_refusal(
    event: Event, *, accountant: str, adjacency: Adjacency, fixed_size: bool
) -> str | None:
    """Why an accountant of sampled Gaussian sums does not support an event; None where it does.

    `fixed_size`: whether it has a bound for samples of a fixed size.
    """
    reason: str | None
    known = known_event(event)
    match known:
        case Gaussian() | Rotated(event=Gaussian()):
            reason = None
        case PoissonSampled(event=Gaussian()) | RandomAllocated(event=Gaussian()):
            reason = _coins(adjacency)
        case FixedSizeSampled(event=Gaussian()):
            reason = _fixed_size(accountant, adjacency, offered=fixed_size)
        case PoissonSampled() | FixedSizeSampled() | RandomAllocated() | Rotated():
            reason = (
                f"{accountant!r} knows samples of a 'gaussian' event only, not of a "
                f"{known.event.kind!r} one"
            )
        case TwoStage():
            reason = (
                f"{accountant!r} has no bound for the 'two-stage' event; use the accountant "
                "'two-stage' under 'add-or-remove-one'"
            )
        case DiscreteLaplace():
            reason = (
                f"{accountant!r} knows Gaussian noise only; epsilons of 'discrete-laplace' add up"
            )
        case LaplaceL2():
            reason = METRIC_REFUSAL
        case NonPrivate() | Composed():
            reason = f"{accountant!r} does not know an event of kind {event.kind!r}"
        case _:
            assert_never(known)
    return reason


def _coins(adjacency: Adjacency) -> str | None:
    match adjacency:
        case "add-or-remove-one":
            return None
        case "replace-one":
            return (
                "Poisson sampling and random allocation are accounted for under "
                f"'add-or-remove-one', not {adjacency!r}: change the adjacency, or draw samples of "
                "a fixed size and use 'rdp'"
            )
        case _:
            assert_never(adjacency)


def _fixed_size(accountant: str, adjacency: Adjacency, *, offered: bool) -> str | None:
    match adjacency:
        case "replace-one":
            pass
        case "add-or-remove-one":
            return (
                "a sample of a fixed size is accounted for under 'replace-one', not "
                f"{adjacency!r}: change the adjacency and use 'rdp', or sample by Poisson coins"
            )
        case _:
            assert_never(adjacency)
    if not offered:
        return (
            f"{accountant!r} has no bound for a sample of a fixed size; use 'rdp' under "
            "'replace-one', or sample by Poisson coins under 'add-or-remove-one'"
        )
    return None


_AT_EDGE = (
    "the best Renyi order, {order:g}, is the {edge} on the grid: the bound holds, but {beyond} "
    "orders could give a smaller epsilon"
)


def added_epsilon(orders: ArrayLike, delta: float) -> Floats:
    """What the conversion adds to the Renyi divergence at each order: float64 [orders].

    The smallest of these is a floor: no epsilon below it can be shown on these orders.
    """
    alpha = np.asarray(orders, dtype=np.float64)
    return np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)


def best_epsilon(divergences: Floats, orders: Floats, delta: float) -> tuple[float, float]:
    """The smallest epsilon over the orders, not below 0, and its order.

    `divergences`: float64 [orders]; may hold infinities.
    """
    epsilons = divergences + added_epsilon(orders, delta)
    best = int(np.argmin(epsilons))
    return max(0.0, float(epsilons[best])), float(orders[best])


def renyi_spending(epsilon: float, order: float, *, orders: Sequence[float]) -> Spending:
    """A bound from the best of ascending orders, with a warning where that is at an edge."""
    warnings: tuple[str, ...] = ()
    if 0 < epsilon < np.inf:
        if order == orders[0]:
            warnings = (_AT_EDGE.format(order=order, edge="smallest", beyond="smaller"),)
        elif order == orders[-1]:
            warnings = (_AT_EDGE.format(order=order, edge="largest", beyond="larger"),)
    return Spending(epsilon, order, warnings)


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
        return renyi_spending(float(epsilon), float(order), orders=self._orders)


@lru_cache(maxsize=1 << 14)
def event_curve(event: Event, orders: tuple[float, ...], adjacency: Adjacency) -> Floats:
    """The Renyi divergence of one event at each order: float64 [orders], read-only.

    Cached, because a run composes the same event round after round, and a training elsewhere up to
    256 of them; a curve has about a KiB.
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


def composed_epsilon(curve: Floats, delta: float) -> float:
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


def accountant_of(name: AccountantName, *, adjacency: Adjacency) -> "RdpAccountant | PldAccountant":
    """The accountant that a spec names."""
    match name:
        case "rdp":
            return RdpAccountant(adjacency=adjacency)
        case "pld":
            return PldAccountant(adjacency=adjacency)
        case _:
            assert_never(name)


LOSS_STEP = 1e-4
COARSE_LOSS_STEP = 1e-3
"""Coarser, ten times as fast, and still an upper bound."""


class PldAccountant(Accountant):
    """Composes the distributions themselves. A figure takes up to seconds, so request few.

    Blocks of random allocation are composed with equal blocks only: TypeError beside others.
    """

    name = "pld"

    def __init__(self, *, adjacency: Adjacency, loss_step: float = LOSS_STEP) -> None:
        """`loss_step`: the width of the grid of losses; of random allocation, which has a grid of
        its own, whether that is fine."""
        super().__init__(adjacency=adjacency)
        self._loss_step = loss_step

    def _refusal(self, event: Event) -> str | None:
        return sampled_gaussian_refusal(
            event, accountant=self.name, adjacency=self.adjacency, fixed_size=False
        )

    def _spent(self, counts: Mapping[Event, int], delta: float) -> Spending:
        from dp_accounting.pld import PLDAccountant as Library

        [event, *others] = counts
        if isinstance(event, RandomAllocated) and isinstance(event.event, Gaussian) and not others:
            points = FINE if self._loss_step <= LOSS_STEP else COARSE
            noise_multiplier = event.event.noise_multiplier
            loss = allocation_loss(event.rounds, noise_multiplier, points=points)
            epsilon = float(loss.self_compose(counts[event]).get_epsilon_for_delta(delta))
            return Spending(max(0.0, epsilon))
        library = Library(library_relation(self.adjacency), self._loss_step)
        for event, count in counts.items():
            # Under replacement the library itself places neighbouring sums two clips apart.
            library.compose(library_event(event, clips=1), count)
        epsilon = float(library.get_epsilon(delta))
        return Spending(max(0.0, epsilon))
