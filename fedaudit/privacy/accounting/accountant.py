"""The interface of every accountant of (epsilon, delta)-differential privacy.

An accountant is made for one adjacency, states before composing which events it supports under it,
and gives an upper bound on epsilon for everything composed so far. Metric privacy has no such
accountant: its leakage is not an epsilon (`fedaudit.privacy.leakage`).

From Renyi differential privacy to epsilon and back, one order at a time: Balle et al., "Hypothesis
testing interpretations and Renyi differential privacy" (2020), theorem 21; also Canonne et al.
2020, proposition 12: a mechanism of Renyi divergence rho at order alpha is (epsilon, delta)-private
with

    epsilon = rho + log(1 - 1/alpha) - log(alpha * delta) / (alpha - 1).

The older epsilon = rho + log(1/delta) / (alpha - 1) (Mironov 2017) is never smaller.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


class UnsupportedEventError(ValueError):
    """The accountant does not support this event; the message names a pair that it supports."""


@dataclass(frozen=True)
class Spending:
    """An upper bound on epsilon, with the conditions under which it holds."""

    epsilon: float
    """Infinite where something was released without a mechanism."""
    delta: float
    adjacency: Adjacency
    accountant: str
    order: float | None = None
    """The Renyi order that gave the bound; None where the accountant uses no orders."""
    warnings: tuple[str, ...] = ()


class Accountant(ABC):
    """Composes events under one adjacency."""

    name: ClassVar[str]
    adjacencies: ClassVar[tuple[Adjacency, ...]] = ("add-or-remove-one", "replace-one")

    def __init__(self, *, adjacency: Adjacency) -> None:
        """Raises ValueError where this accountant has no bound under the adjacency."""
        if adjacency not in self.adjacencies:
            raise ValueError(
                f"the accountant {self.name!r} has no bound under the adjacency {adjacency!r}; "
                f"it has one under {', '.join(map(repr, self.adjacencies))}"
            )
        self._adjacency: Adjacency = adjacency
        self._counts: dict[Event, int] = {}

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency of every figure of this accountant."""
        return self._adjacency

    @property
    def composed(self) -> tuple[Composed, ...]:
        """Everything composed so far: equal events are grouped, in the order of first
        appearance."""
        return tuple(Composed(event, count) for event, count in self._counts.items())

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
            return Spending(0.0, delta, self.adjacency, self.name)
        if any(isinstance(event, NonPrivate) for event in self._counts):
            return Spending(math.inf, delta, self.adjacency, self.name)
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


def added_epsilon(orders: ArrayLike, delta: float) -> NDArray[np.float64]:
    """What the conversion adds to the Renyi divergence at each order: float64 [orders].

    The smallest of these is a floor: no epsilon below it can be shown on these orders.
    """
    alpha = np.asarray(orders, dtype=np.float64)
    return np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)


def divergence_limit(epsilon: ArrayLike, order: ArrayLike, delta: float) -> NDArray[np.float64]:
    """The divergence at an order that still gives this epsilon: float64, broadcast.

    Negative where the order cannot show so small an epsilon.
    """
    return np.asarray(epsilon, dtype=np.float64) - added_epsilon(order, delta)


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
