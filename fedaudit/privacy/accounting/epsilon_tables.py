"""Epsilon after every number of compositions of one event.

A table starts at 0, never decreases, and is an upper bound at each of its places.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, assert_never

import numpy as np
from numpy.typing import ArrayLike

from fedaudit.arrays import Floats, Ints
from fedaudit.privacy.accounting.accountant import (
    COARSE_LOSS_STEP,
    LOSS_STEP,
    RDP_ORDERS,
    added_epsilon,
    epsilon_of_events,
    event_curve,
)
from fedaudit.privacy.accounting.privacy_events import (
    BLOCKS,
    Adjacency,
    Composed,
    DiscreteLaplace,
    Event,
    FixedSizeSampled,
    Gaussian,
    LaplaceL2,
    NonPrivate,
    Observer,
    PoissonSampled,
    RandomAllocated,
    Rotated,
    TwoStage,
    event_from_dict,
    known_event,
)
from fedaudit.privacy.accounting.two_stage import TWO_STAGE_ORDERS, round_curve

_AT_ONCE = 1 << 12  # compositions at a time
_PLD_POINTS = 32
_MAX_PLD_EPSILON = 30.0  # a larger epsilon takes long to compute and means little
ROUGH_ORDERS = tuple(order for order in RDP_ORDERS if order.is_integer())
"""With these, sampled events are far quicker than with fractional orders, and little looser."""


@dataclass(frozen=True, kw_only=True)
class EpsilonTerms:
    """What an epsilon is of, besides events and their number."""

    adjacency: Adjacency
    observer: Observer
    delta: float


def renyi_epsilons(
    event: Event,
    compositions: ArrayLike,
    terms: EpsilonTerms,
    *,
    orders: tuple[float, ...] = RDP_ORDERS,
) -> Floats:
    """Epsilon by Renyi orders, for each number of compositions: float64, as `compositions`."""
    orders = TWO_STAGE_ORDERS if isinstance(event, TwoStage) else orders
    curve = shared_curve(event, terms, orders)
    added = added_epsilon(orders, terms.delta)
    counts = np.asarray(compositions, dtype=np.float64)
    flat = counts.ravel()
    found = np.empty(len(flat))
    for start in range(0, len(flat), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        # A count of 0 at an order with infinite divergence is NaN, and is replaced below.
        with np.errstate(invalid="ignore"):
            found[part] = (np.multiply.outer(flat[part], curve) + added).min(-1)
    table: Floats = np.where(flat > 0, np.maximum(found, 0.0), 0.0)
    return table.reshape(counts.shape)


@lru_cache(maxsize=32)
def pld_table(event: Event, compositions: int, terms: EpsilonTerms) -> Floats:
    """Epsilon after 0 .. `compositions` by privacy loss distributions: [compositions + 1].

    Computed at a few places; between two places the figure of the later one is used, or that of
    Renyi orders where it is smaller. The last place is the accountant's own figure.
    """
    table = renyi_epsilons(event, np.arange(compositions + 1), terms)
    places = np.unique(np.geomspace(1, compositions, _PLD_POINTS).round().astype(np.int64)).tolist()
    for place in places:
        if table[place] > _MAX_PLD_EPSILON:
            break
        step = LOSS_STEP if place == compositions else COARSE_LOSS_STEP
        table[place] = planned_epsilon(event, place, terms, pld_step=step)
    # An upper bound for more compositions also holds for fewer.
    table = np.minimum.accumulate(table[::-1])[::-1].copy()
    table.flags.writeable = False
    return table


@lru_cache(maxsize=4096)
def planned_epsilon(
    event: Event,
    steps: int,
    terms: EpsilonTerms,
    *,
    pld_step: float | None,
    orders: tuple[float, ...] = RDP_ORDERS,
) -> float:
    """Epsilon after `steps` compositions of one event: the last of their curve, without the others.

    `pld_step`: the width of the grid of losses, LOSS_STEP for the same number as the curve's; None
    for Renyi orders alone. `orders`: fewer are quicker, and still give an upper bound.
    """
    epsilon = float(renyi_epsilons(event, steps, terms, orders=orders))
    if pld_step is None or epsilon > _MAX_PLD_EPSILON:
        return epsilon
    by_losses = epsilon_of_events(
        ((event, steps),), "pld", adjacency=terms.adjacency, delta=terms.delta, loss_step=pld_step
    )
    return min(epsilon, by_losses)


def pure_curve(epsilon: float, at: tuple[float, ...] = RDP_ORDERS) -> Floats:
    """Renyi divergences at these orders that no mechanism of `epsilon` without a delta exceeds.

    Those of randomised response, from which every other such mechanism can be computed (Kairouz,
    Oh and Viswanath 2015).
    """
    orders = np.array(at)
    likelier = np.logaddexp(orders * epsilon, (1 - orders) * epsilon)
    curve: Floats = (likelier - np.logaddexp(0, epsilon)) / (orders - 1)
    return np.minimum(curve, epsilon)


def shared_curve(
    event: Event, terms: EpsilonTerms, orders: tuple[float, ...] = RDP_ORDERS
) -> Floats:
    """Renyi divergences of one composition at the orders, for any event: float64 [orders].

    The common orders let events of different runs be composed. A two-stage round is known only at
    whole orders; divergences grow with the order, so the next whole order bounds a fractional one.
    """
    known = known_event(event)
    match known:
        case TwoStage():
            whole, place = np.unique(np.ceil(np.maximum(orders, 2)), return_inverse=True)
            found = round_curve(
                known, tuple(int(order) for order in whole), observer=terms.observer
            )
            return found[place]
        case Gaussian() | PoissonSampled() | FixedSizeSampled() | RandomAllocated() | Rotated():
            return event_curve(known, orders, terms.adjacency)
        case DiscreteLaplace():
            return pure_curve(known.epsilon, orders)
        case NonPrivate() | LaplaceL2() | Composed():
            raise TypeError(f"no Renyi divergences are known of {event}")
        case _:
            assert_never(known)


@dataclass(frozen=True)
class RepeatedEvent:
    """One event, composed repeatedly."""

    event: Event
    max_compositions: int | None = None
    """Releases after which the subject takes no further part; None where it stays to the end."""

    def compositions_within(self, releases: ArrayLike) -> Ints:
        """How often the event is composed within so many releases.

        Once a release; of cohorts by blocks once a block, which counts from its first round on.
        """
        counts = np.asarray(releases, dtype=np.int64)
        if self.max_compositions is not None:
            counts = np.minimum(counts, self.max_compositions)
        return -(-counts // self.event.rounds) if isinstance(self.event, BLOCKS) else counts

    def as_dict(self) -> dict[str, Any]:
        """JSON-able values; `repeated_event_from_dict` reads them back."""
        return {"event": self.event.as_dict(), "lasts": self.max_compositions}


def repeated_event_from_dict(values: dict[str, Any]) -> RepeatedEvent:
    """The inverse of `as_dict`. Raises ValueError, KeyError or TypeError where the value is
    malformed."""
    lasts = values["lasts"]
    if lasts is not None and (type(lasts) is not int or lasts < 1):
        raise ValueError(f"lasts = {lasts} must be a whole number, 1 or more, or null")
    return RepeatedEvent(event_from_dict(values["event"]), lasts)


@dataclass(frozen=True, eq=False, kw_only=True)
class EpsilonCurve:
    """Epsilon of one kind of subject, by number of compositions."""

    terms: EpsilonTerms
    repeated_events: tuple[RepeatedEvent, ...]
    """The possible repeated events of a subject; the curve is their maximum at each place. A single
    one, except for groups of records that their clients sample with noise of their own."""
    epsilons: Floats
    """[steps + 1]: epsilon after that many compositions; upper bounds that never decrease, from
    0."""

    @classmethod
    def of_events(
        cls,
        repeated_events: tuple[RepeatedEvent, ...],
        steps: int,
        terms: EpsilonTerms,
        *,
        by_pld: bool,
    ) -> "EpsilonCurve":
        """The curve up to so many compositions: of a single event by privacy loss distributions
        (`by_pld`), or by Renyi orders."""
        if by_pld:
            [repeated] = repeated_events
            counts = repeated.compositions_within(np.arange(steps + 1))
            table = pld_table(repeated.event, int(counts[-1]), terms)
            epsilons = table[counts]
        else:
            epsilons = worst_epsilons(repeated_events, np.arange(steps + 1), terms)
        return cls(terms=terms, repeated_events=repeated_events, epsilons=epsilons)

    @property
    def event(self) -> Event:
        """One composition of the repeated event that spends most in the end."""
        return self.repeated_events[0].event

    def after(self, compositions: ArrayLike) -> Floats:
        """Epsilon after each of these numbers of compositions, which may exceed the planned ones.

        A round that was charged, lost and repeated is composed twice.
        """
        counts = np.asarray(compositions, dtype=np.int64)
        last = len(self.epsilons) - 1
        found: Floats = np.array(self.epsilons[np.minimum(counts, last)])
        beyond = counts > last
        if beyond.any():
            more = worst_epsilons(self.repeated_events, counts[beyond], self.terms)
            found[beyond] = np.maximum(found[beyond], more)
        return found

    def steps_within(self, epsilon: float) -> int:
        """The largest number of planned compositions after which `epsilon` is not exceeded."""
        return int(np.searchsorted(self.epsilons, epsilon, side="right")) - 1

    def curve(self, compositions: int) -> Floats:
        """Renyi divergences after this many compositions, at RDP_ORDERS: float64 [orders]."""
        most = np.zeros(1)
        for repeated in self.repeated_events:
            one = shared_curve(repeated.event, self.terms)
            count = int(repeated.compositions_within(compositions))
            # An order without a bound stays infinite, unless nothing was composed.
            most = np.maximum(most, count * one if count else np.zeros(len(one)))
        return most


def worst_epsilons(
    repeated_events: tuple[RepeatedEvent, ...], compositions: ArrayLike, terms: EpsilonTerms
) -> Floats:
    """The largest epsilon of the events after each number of compositions, by Renyi orders:
    float64."""
    found = [
        renyi_epsilons(repeated.event, repeated.compositions_within(compositions), terms)
        for repeated in repeated_events
    ]
    most: Floats = np.max(found, axis=0)
    return most
