"""Renyi divergences of the Poisson-sampled Gaussian and of the two-stage round, for many rates.

One step at integer order alpha (Mironov, Talwar and Zhang 2019, section 3.3; equation (2) of the
rPDP-FL slides): the divergence is log A / (alpha - 1) with

    A = sum over k of C(alpha, k) (1 - q)^(alpha - k) q^k exp(k (k - 1) / (2 sigma^2)).

The coefficients without the exponentials add up to 1, so A - 1 is the same sum with the
exponentials less 1: every term is positive from k = 2 on, and a tiny divergence keeps its digits.
Everything is kept in logarithms, so a huge one does not overflow.

Two-stage sampling (rPDP-FL, CCS 2024): clients by Poisson coins, records within them.

The figure depends on the observer. `final_model` sees only the model and not which clients took
part: a round is amplified by the client's rate. `server` sees who uploads, so a round in which the
client took part costs its full price and one in which it did not costs nothing: compose all rounds
for the worst case before a run, and the rounds of participation for the realised cost.

Multiplying the two rates and accounting for a single sample understates the figure: all steps of a
round depend on one coin of the client.
"""

from dataclasses import replace
from functools import lru_cache
from typing import Annotated, assert_never

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field
from pydantic.dataclasses import dataclass

from fedaudit.arrays import Floats
from fedaudit.privacy.accounting.accountant import added_epsilon
from fedaudit.privacy.accounting.privacy_events import (
    EXACT,
    Count,
    Observer,
    Positive,
    Rate,
    TwoStage,
)
from fedaudit.spec.errors import error_at

_CHUNK = 1 << 16  # terms at a time: the working set stays within the L2 cache


def log_moments(rates: Floats, *, order: int, noise_multiplier: float) -> Floats:
    """log A at an integer order, 2 or more, for each rate in [0, 1]: float64 [rates].

    Divided by order - 1 it is the Renyi divergence of one step.
    """
    moments = np.zeros(len(rates))
    moments[rates == 1] = order * (order - 1) / (2 * noise_multiplier**2)
    inner = np.flatnonzero((rates > 0) & (rates < 1))
    powers = np.arange(2, order + 1)
    logs = _log_coefficients(order, noise_multiplier)
    size = max(1, _CHUNK // len(powers))
    for start in range(0, len(inner), size):
        part = inner[start : start + size]
        miss = np.log1p(-rates[part])
        terms = np.multiply.outer(np.log(rates[part]) - miss, powers)
        terms += logs
        largest = terms.max(-1)
        terms -= largest[:, None]
        np.exp(terms, out=terms)
        # log A = log(1 + exp(the logarithm of A - 1))
        moments[part] = np.logaddexp(0, largest + np.log(terms.sum(-1)) + order * miss)
    return moments


@lru_cache(maxsize=1024)
def _log_coefficients(order: int, noise_multiplier: float) -> Floats:
    """log(C(order, k) (exp(k (k - 1) / (2 sigma^2)) - 1)) for k = 2 .. order."""
    from scipy.special import gammaln

    k = np.arange(2, order + 1)
    exponent = k * (k - 1) / (2 * noise_multiplier**2)
    choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    logs: Floats = choose + exponent + np.log(-np.expm1(-exponent))
    logs.flags.writeable = False
    return logs


def round_divergence(
    rates: Floats, public: "TwoStage | TwoStageRun", *, order: int, observer: Observer
) -> Floats:
    """The Renyi divergence of one round at an integer order, for each record rate, by the other
    numbers of an event or a run.

    With chance `client_rate`, unobserved, the client takes `steps` steps of divergence rho each:
    log(1 - lambda + lambda exp((alpha - 1) steps rho)) / (alpha - 1), by the joint convexity of
    exp((alpha - 1) D). Against an observer of which clients take part lambda is 1.
    """
    noise = public.noise_multiplier
    exponent = public.steps * log_moments(rates, order=order, noise_multiplier=noise)
    match observer:
        case "final_model":
            client_rate = public.client_rate
        case "server":
            client_rate = 1.0
        case _:
            assert_never(observer)
    if client_rate == 1:
        return exponent / (order - 1)
    # Exact for small exponents, and no overflow for large ones.
    small = np.log1p(client_rate * np.expm1(np.minimum(exponent, 1)))
    large = exponent + np.log1p((1 - client_rate) * np.expm1(-exponent))
    return np.where(exponent < 1, small, large) / (order - 1)


TWO_STAGE_ORDERS: tuple[int, ...] = tuple(sorted({int(1.07**i + 1) for i in range(103)}))
"""The distinct integers floor(1.07^i + 1) up to about 1000, as in the authors' code."""


@dataclass(frozen=True, kw_only=True, config=EXACT)
class TwoStageRun:
    """The public numbers of a run: together with a record's rate they determine what it spends.
    Raises ValueError for a number out of its range."""

    client_rate: Rate
    noise_multiplier: Positive
    steps: Count
    """Local steps of a client in a round in which it takes part."""
    rounds: Count
    delta: Annotated[float, Field(gt=0, lt=1)]
    observer: Observer

    def event(self, record_rate: float) -> TwoStage:
        """One round for a record of this rate."""
        return TwoStage(self.client_rate, record_rate, self.noise_multiplier, self.steps)

    @property
    def floor(self) -> float:
        """The least epsilon that can be shown for a sampled record: there are only finitely many
        orders."""
        return max(0.0, float(added_epsilon(TWO_STAGE_ORDERS, self.delta).min()))

    def divergence(self, rates: Floats, order: int) -> Floats:
        """The Renyi divergence of one round at an order: float64 [rates]."""
        return round_divergence(rates, self, order=order, observer=self.observer)

    def epsilons(self, rates: ArrayLike, *, rounds: ArrayLike | None = None) -> Floats:
        """What records of these rates spend: float64 [records].

        `rates`: in [0, 1]; a record of rate 0 is never sampled and spends nothing. `rounds`: the
        rounds that count for each record, if not all of them (realised participation against the
        `server`, rounds until a record left); broadcast with `rates`.
        """
        every = np.broadcast_arrays(rates, self.rounds if rounds is None else rounds)
        pairs = np.stack([part.astype(np.float64).ravel() for part in every], axis=-1)
        # Records share rates, so the work is done once per distinct rate.
        distinct, position = np.unique(pairs, axis=0, return_inverse=True)
        spent = self._distinct_epsilons(distinct[:, 0], distinct[:, 1])
        return spent[position.ravel()].reshape(every[0].shape)

    def _distinct_epsilons(self, rates: Floats, rounds: Floats) -> Floats:
        """Like `epsilons`, for ascending orders.

        Divergences grow with the order. Once a divergence, plus the least that a later conversion
        adds, exceeds the best epsilon, no later order can improve it and the rate is done.
        """
        if not ((rates >= 0) & (rates <= 1)).all():
            raise ValueError("rates must be between 0 and 1")
        best = np.full(len(rates), np.inf)
        added = added_epsilon(TWO_STAGE_ORDERS, self.delta)
        least = np.minimum.accumulate(added[::-1])[::-1]
        open_ = np.arange(len(rates))
        for index, order in enumerate(TWO_STAGE_ORDERS):
            divergence = rounds[open_] * self.divergence(rates[open_], order)
            best[open_] = np.minimum(best[open_], divergence + added[index])
            open_ = open_[divergence + least[index] < best[open_]]
            if not len(open_):
                break
        spent: Floats = np.where((rates > 0) & (rounds > 0), best, 0.0)
        return np.maximum(spent, 0.0)


# Asked of the same events by every cell of a sweep, and several times by each.
@lru_cache(maxsize=1024)
def round_curve(event: TwoStage, orders: tuple[int, ...], *, observer: Observer) -> Floats:
    """The Renyi divergence of one round at each order: float64 [orders], read-only."""
    rate = np.array([event.record_rate])
    curve = np.concatenate(
        [round_divergence(rate, event, order=order, observer=observer) for order in orders]
    )
    curve.flags.writeable = False
    return curve


_RELATIVE_TOLERANCE = 1e-9
_MIN_NOISE = 1e-3
MAX_NOISE = 1e9
"""The largest noise multiplier that is tried."""


# Cells of a sweep, and clients of one size, ask for the same noise: it is found once, by the exact
# numbers that determine it.
@lru_cache(maxsize=4096)
def calibrated_run(
    epsilon: float,
    uncalibrated: TwoStageRun,
    *,
    record_rate: float = 1.0,
    pointer: str = "/privacy/epsilon_max",
) -> TwoStageRun:
    """The run with the least noise in which a record of `record_rate` spends at most `epsilon`;
    all else is as in the `uncalibrated` one.

    With rate 1 every record of the run spends at most `epsilon`, and the noise reveals nothing
    about any record's budget. The authors stop within 0.01 of the budget on either side; here the
    budget is met to nine digits and never exceeded. Raises InvalidInputError at `pointer` where no
    amount of noise is enough (the budget is below the floor of the orders).
    """

    def spends(noise_multiplier: float) -> float:
        run = replace(uncalibrated, noise_multiplier=noise_multiplier)
        return float(run.epsilons(record_rate))

    if not spends(MAX_NOISE) <= epsilon:
        raise error_at(
            pointer,
            f"no noise keeps a record within epsilon = {epsilon:g} at delta = "
            f"{uncalibrated.delta:g}: the accountant cannot show less than "
            f"{uncalibrated.floor:.4g}; raise the budget or delta",
            of_spec=True,
        )
    # Bisection on the logarithm, whose upper end keeps the budget.
    low, high = _MIN_NOISE, MAX_NOISE
    if spends(low) <= epsilon:
        high = low
    while high > low * (1 + _RELATIVE_TOLERANCE):
        middle = (low * high) ** 0.5
        if not low < middle < high:
            break
        low, high = (low, middle) if spends(middle) <= epsilon else (middle, high)
    return replace(uncalibrated, noise_multiplier=high)
