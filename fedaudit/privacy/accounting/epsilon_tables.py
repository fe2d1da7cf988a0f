"""Epsilon after every number of compositions of one event.

A table starts at 0, never decreases, and is an upper bound at each of its places.
"""

from functools import lru_cache
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.accounting.accountants.conversion import added_epsilon
from fedaudit.privacy.accounting.accountants.pld import COARSE_LOSS_STEP, PldAccountant
from fedaudit.privacy.accounting.accountants.rdp import RDP_ORDERS, event_curve
from fedaudit.privacy.accounting.accountants.two_stage import TWO_STAGE_ORDERS, round_curve
from fedaudit.privacy.accounting.privacy_events import (
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
    TwoStage,
    known_event,
)

_AT_ONCE = 1 << 12  # compositions at a time
_PLD_POINTS = 32
_MAX_PLD_EPSILON = 30.0  # a larger epsilon takes long to compute and means little


def renyi_epsilons(
    event: Event, compositions: ArrayLike, *, adjacency: Adjacency, observer: Observer, delta: float
) -> NDArray[np.float64]:
    """By Renyi orders, for each number of compositions: float64, as `compositions`."""
    orders, curve = _own_curve(event, adjacency=adjacency, observer=observer)
    added = added_epsilon(orders, delta)
    counts = np.asarray(compositions, dtype=np.float64)
    flat = counts.ravel()
    found = np.empty(len(flat))
    for start in range(0, len(flat), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        # A count of 0 at an order with infinite divergence is NaN, and is replaced below.
        with np.errstate(invalid="ignore"):
            found[part] = (np.multiply.outer(flat[part], curve) + added).min(-1)
    table: NDArray[np.float64] = np.where(flat > 0, np.maximum(found, 0.0), 0.0)
    return table.reshape(counts.shape)


@lru_cache(maxsize=32)
def pld_table(
    event: Event, steps: int, *, adjacency: Adjacency, delta: float
) -> NDArray[np.float64]:
    """Epsilon after 0 .. `steps` compositions by privacy loss distributions: [steps + 1].

    Computed at a few places; between two places the figure of the later one is used, or that of
    Renyi orders where it is smaller. The last place is the accountant's own figure.
    """
    table = renyi_epsilons(
        event, np.arange(steps + 1), adjacency=adjacency, observer="final_model", delta=delta
    )
    places = np.unique(np.geomspace(1, steps, _PLD_POINTS).round().astype(np.int64)).tolist()
    for place in places:
        if table[place] > _MAX_PLD_EPSILON:
            break
        fine = {} if place == steps else {"loss_step": COARSE_LOSS_STEP}
        accountant = PldAccountant(adjacency=adjacency, **fine)
        table[place] = min(table[place], accountant.compose(event, place).epsilon(delta))
    # An upper bound for more compositions also holds for fewer.
    table = np.minimum.accumulate(table[::-1])[::-1].copy()
    table.flags.writeable = False
    return table


def pure_curve(epsilon: float) -> NDArray[np.float64]:
    """Renyi divergences at RDP_ORDERS that no mechanism of `epsilon` without a delta exceeds.

    Those of randomised response, from which every other such mechanism can be computed (Kairouz,
    Oh and Viswanath 2015).
    """
    orders = np.array(RDP_ORDERS)
    likelier = np.logaddexp(orders * epsilon, (1 - orders) * epsilon)
    curve: NDArray[np.float64] = (likelier - np.logaddexp(0, epsilon)) / (orders - 1)
    return np.minimum(curve, epsilon)


def shared_curve(event: Event, *, adjacency: Adjacency, observer: Observer) -> NDArray[np.float64]:
    """Renyi divergences of one composition at RDP_ORDERS, for any event: float64 [orders].

    The common orders let events of different runs be composed. A two-stage round is known only at
    whole orders; divergences grow with the order, so the next whole order bounds a fractional one.
    """
    known = known_event(event)
    match known:
        case TwoStage():
            whole, place = np.unique(np.ceil(np.maximum(RDP_ORDERS, 2)), return_inverse=True)
            found = round_curve(known, [int(order) for order in whole], observer=observer)
            curve: NDArray[np.float64] = found[place]
            return curve
        case Gaussian() | PoissonSampled() | FixedSizeSampled():
            return event_curve(known, RDP_ORDERS, adjacency)
        case DiscreteLaplace():
            return pure_curve(known.epsilon)
        case NonPrivate() | LaplaceL2() | Composed():
            raise TypeError(f"no Renyi divergences are known of {event}")
        case _:
            assert_never(known)


def _own_curve(
    event: Event, *, adjacency: Adjacency, observer: Observer
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The orders of the event's accountant, and its divergences there."""
    known = known_event(event)
    match known:
        case TwoStage():
            orders = TWO_STAGE_ORDERS
            curve = round_curve(known, orders, observer=observer)
            return np.array(orders, dtype=np.float64), curve
        case Gaussian() | PoissonSampled() | FixedSizeSampled():
            return np.array(RDP_ORDERS), event_curve(known, RDP_ORDERS, adjacency)
        case DiscreteLaplace():
            return np.array(RDP_ORDERS), pure_curve(known.epsilon)
        case NonPrivate() | LaplaceL2() | Composed():
            raise TypeError(f"no Renyi divergences are known of {event}")
        case _:
            assert_never(known)
