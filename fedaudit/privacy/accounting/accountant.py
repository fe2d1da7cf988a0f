"""Figures of (epsilon, delta)-differential privacy: Renyi orders, and privacy loss distributions.

Each is of events that are composed under one adjacency, and an upper bound on their epsilon. Metric
privacy has no such figure: its leakage is not an epsilon (`fedaudit.privacy.leakage`).

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
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, assert_never

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

_CLIPS_APART: dict[Adjacency, float] = {"add-or-remove-one": 1.0, "replace-one": 2.0}
"""The distance between neighbouring sums, in clips."""
RDP_ORDERS: tuple[float, ...] = (
    *(1 + tenths / 10 for tenths in range(1, 100)),
    *(float(order) for order in range(11, 64)),
    *(64.0, 80.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 1024.0),
)
"""Fractional orders serve large epsilons, large orders serve small epsilons."""
LOSS_STEP = 1e-4
COARSE_LOSS_STEP = 1e-3
"""Coarser, ten times as fast, and still an upper bound."""


def sampling_refusal(
    event: Event, *, accountant: AccountantName, adjacency: Adjacency
) -> str | None:
    """Why the accountant has no bound for a sampled event under the adjacency, and a pair that it
    has one for; None where it has, or nothing is sampled."""
    drawn_by_chance = isinstance(event, PoissonSampled | RandomAllocated)
    match adjacency:
        case "replace-one":
            if drawn_by_chance:
                return (
                    "Poisson sampling and random allocation are accounted for under "
                    f"'add-or-remove-one', not {adjacency!r}: change the adjacency, or draw "
                    "samples of a fixed size and use 'rdp'"
                )
        case "add-or-remove-one":
            if isinstance(event, FixedSizeSampled):
                return (
                    "a sample of a fixed size is accounted for under 'replace-one', not "
                    f"{adjacency!r}: change the adjacency and use 'rdp', or sample by Poisson coins"
                )
        case _:
            assert_never(adjacency)
    if isinstance(event, FixedSizeSampled) and accountant == "pld":
        return (
            f"{accountant!r} has no bound for a sample of a fixed size; use 'rdp' under "
            "'replace-one', or sample by Poisson coins under 'add-or-remove-one'"
        )
    return None


def _check_sample(event: Event, accountant: AccountantName, adjacency: Adjacency) -> None:
    why = sampling_refusal(event, accountant=accountant, adjacency=adjacency)
    if why is not None:
        raise ValueError(why)


def added_epsilon(orders: ArrayLike, delta: float) -> Floats:
    """What the conversion adds to the Renyi divergence at each order: float64 [orders].

    The smallest of these is a floor: no epsilon below it can be shown on these orders.
    """
    alpha = np.asarray(orders, dtype=np.float64)
    return np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)


@lru_cache(maxsize=1 << 14)
def event_curve(event: Event, orders: tuple[float, ...], adjacency: Adjacency) -> Floats:
    """The Renyi divergence of one event at each order: float64 [orders], read-only.

    Raises ValueError for a sample without a bound under the adjacency (`sampling_refusal`). Cached,
    because a run composes the same event round after round, and a training elsewhere up to 256 of
    them; a curve has about a KiB.
    """
    from dp_accounting.rdp import RdpAccountant as Library

    _check_sample(event, "rdp", adjacency)
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
    if curve.shape != (len(RDP_ORDERS),):
        raise ValueError(f"a curve has {len(RDP_ORDERS)} orders, not {curve.size}")
    epsilon = float((curve + added_epsilon(RDP_ORDERS, delta)).min())
    return max(0.0, epsilon) if curve.any() else 0.0


def library_relation(adjacency: Adjacency) -> Any:
    """The adjacency in dp-accounting's terms."""
    from dp_accounting import NeighboringRelation

    return NeighboringRelation[adjacency.replace("-", "_").upper()]


def library_event(event: Event, *, clips: float) -> Any:
    """The event in dp-accounting's terms, for neighbouring sums that are `clips` clips apart."""
    import dp_accounting

    known = known_event(event)
    match known:
        case Gaussian():
            return dp_accounting.GaussianDpEvent(known.noise_multiplier / clips)
        case Rotated(event=Gaussian()):  # once a block, whatever its noise is correlated with
            return library_event(known.event, clips=clips)
        case PoissonSampled(event=Gaussian()):
            inner = library_event(known.event, clips=clips)
            return dp_accounting.PoissonSampledDpEvent(known.rate, inner)
        case FixedSizeSampled(event=Gaussian()):
            inner = library_event(known.event, clips=clips)
            return dp_accounting.SampledWithoutReplacementDpEvent(
                known.population, known.sample, inner
            )
        case NonPrivate() | TwoStage() | DiscreteLaplace() | LaplaceL2() | Composed():
            raise TypeError(f"no Gaussian sum of the library's: {event}")
        case PoissonSampled() | FixedSizeSampled() | RandomAllocated() | Rotated():
            raise TypeError(f"samples of Gaussian sums alone are known to the library, not {event}")
        case _:
            assert_never(known)


@lru_cache(maxsize=4096)
def epsilon_of_events(
    composed: tuple[tuple[Event, int], ...],
    accountant: AccountantName,
    *,
    adjacency: Adjacency,
    delta: float,
    loss_step: float = LOSS_STEP,
) -> float:
    """The accountant's epsilon at `delta` of events with their counts; infinite where one of them
    has no mechanism.

    `loss_step`: the width of the grid of losses of `pld`, which takes up to seconds; of random
    allocation, which has a grid of its own, whether that is fine. Raises ValueError for a sample
    that the accountant has no bound for (`sampling_refusal`) and a delta out of (0, 1), and
    TypeError for an event that it does not know; `pld` composes blocks of random allocation with
    equal blocks only.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta = {delta} must be between 0 and 1")
    counts: dict[Event, int] = {}
    for event, count in composed:
        if count:
            counts[event] = counts.get(event, 0) + count
    if not counts or any(isinstance(event, NonPrivate) for event in counts):
        return math.inf if counts else 0.0
    match accountant:
        case "rdp":
            from dp_accounting.rdp import compute_epsilon

            divergences = np.zeros(len(RDP_ORDERS))
            for event, count in counts.items():
                divergences += count * event_curve(event, RDP_ORDERS, adjacency)
            return float(compute_epsilon(RDP_ORDERS, divergences, delta)[0])
        case "pld":
            return max(0.0, _loss_epsilon(counts, adjacency, delta, loss_step=loss_step))
        case _:
            assert_never(accountant)


def _loss_epsilon(
    counts: Mapping[Event, int], adjacency: Adjacency, delta: float, *, loss_step: float
) -> float:
    from dp_accounting.pld import PLDAccountant

    for event in counts:
        _check_sample(event, "pld", adjacency)
    [event, *others] = counts
    if isinstance(event, RandomAllocated) and isinstance(event.event, Gaussian) and not others:
        points = FINE if loss_step <= LOSS_STEP else COARSE
        loss = allocation_loss(event.rounds, event.event.noise_multiplier, points=points)
        return float(loss.self_compose(counts[event]).get_epsilon_for_delta(delta))
    library = PLDAccountant(library_relation(adjacency), loss_step)
    for event, count in counts.items():
        # Under replacement the library itself places neighbouring sums two clips apart.
        library.compose(library_event(event, clips=1), count)
    return float(library.get_epsilon(delta))
