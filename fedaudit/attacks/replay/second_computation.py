"""Renyi epsilons of sampled Gaussian sums, computed a second time and in another way.

The accountants add up series, at the orders of a grid. Here the moment at an order, whole or not,

    A(alpha) = integral of phi(x / sigma) / sigma (1 - q + q exp((2 x - 1) / (2 sigma^2)))^alpha dx

(Mironov, Talwar and Zhang 2019, section 3.3), is a sum by the trapezoidal rule, whose error for a
function as smooth as this is that of rounding, and the best order is searched for. So an accountant
on a grid of orders states no less than these figures.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from fedaudit.attacks.replay.replay_finding import Findings

_CLOSE = 1e-6
_STEPS = 12
"""So many points to a standard deviation."""
_REACH = 12
_ORDERS = 1 + np.geomspace(0.02, 2047, 32)


def expect_epsilon(findings: Findings, epsilon: float, least: float, *, round_: int | None) -> None:
    """No epsilon is less than another computation of the declared rate and noise gives."""
    findings.expect(
        "accounting",
        "epsilon by another computation",
        holds=epsilon >= least * (1 - _CLOSE),
        round_=round_,
        allowed=least,
        measured=epsilon,
    )


def sampled_epsilon(rate: float, *, noise_multiplier: float, rounds: int, delta: float) -> float:
    """Of rounds that a unit enters by its own coin, one clip from its absence."""
    return _least_epsilon(
        lambda order: rounds * _log_moment(rate, noise_multiplier, order) / (order - 1), delta
    )


def two_stage_epsilon(
    client_rate: float,
    record_rate: float,
    *,
    steps: int,
    noise_multiplier: float,
    rounds: int,
    delta: float,
) -> float:
    """Of rounds that a client enters by one coin and a record each of their steps by another:
    log(1 - lambda + lambda A^steps) / (alpha - 1) a round, lambda being the client's rate."""

    def divergence(order: float) -> float:
        exponent = steps * _log_moment(record_rate, noise_multiplier, order)
        return rounds * _of_coin(client_rate, exponent) / (order - 1)

    return _least_epsilon(divergence, delta)


def _of_coin(rate: float, exponent: float) -> float:
    """log(1 - rate + rate exp(exponent))."""
    if rate == 1:
        return exponent
    return float(np.logaddexp(math.log1p(-rate), math.log(rate) + exponent))


def _log_moment(rate: float, noise_multiplier: float, order: float) -> float:
    variance, step = noise_multiplier**2, noise_multiplier / _STEPS
    if rate == 1:
        return order * (order - 1) / (2 * variance)
    x = np.arange(-_REACH * noise_multiplier, order + _REACH * noise_multiplier, step)
    ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * variance))
    logs = order * ratio - x**2 / (2 * variance)
    return float(logsumexp(logs)) + math.log(step / (noise_multiplier * math.sqrt(2 * math.pi)))


def _least_epsilon(divergence: Callable[[float], float], delta: float) -> float:
    """By the conversion of Balle et al. 2020, theorem 21, at the best order."""

    def epsilon(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        added = math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
        return divergence(order) + added

    logs = np.log(_ORDERS - 1)
    best = int(np.argmin([epsilon(one) for one in logs.tolist()]))
    between = float(logs[max(0, best - 1)]), float(logs[min(len(logs) - 1, best + 1)])
    found = float(minimize_scalar(epsilon, bounds=between, method="bounded").fun)
    # Where even the total variation is below delta, epsilon is 0 (Bretagnolle and Huber 1979).
    nothing = -math.expm1(-divergence(float(_ORDERS[0]))) < delta**2
    return 0.0 if nothing else max(0.0, found)
