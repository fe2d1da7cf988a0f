"""Epsilons computed a second time, and deltas that an attack refutes, without the accountants.

Renyi epsilons of sampled Gaussian sums: the accountants add up series, at the orders of a grid.
Here the moment at an order, whole or not,

    A(alpha) = integral of phi(x / sigma) / sigma (1 - q + q exp((2 x - 1) / (2 sigma^2)))^alpha dx

(Mironov, Talwar and Zhang 2019, section 3.3), is a sum by the trapezoidal rule, whose error for a
function as smooth as this is that of rounding, and the best order is searched for. So an accountant
on a grid of orders states no less than these figures.

The least delta that a Gaussian release can have at an epsilon: the attacker adds up everything
along the unit's direction, a normal number whose mean counts how often the unit came in.
Probabilities of intervals are exact, and looking at intervals alone is post-processing, so what is
found never exceeds the truth: an epsilon that is refuted here is wrong, whatever accountant gave
it.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import special, stats
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from fedaudit.attacks.replay.watched_run import Floats

_STEPS = 12
"""So many points to a standard deviation."""
_REACH = 12
_ORDERS = 1 + np.geomspace(0.02, 2047, 32)
_CELLS = 1500
_FINE_CELLS, _GRID = 10_000, 1 << 18
_NEGLIGIBLE = 1e-14


def sampled_epsilon(rate: float, *, noise_multiplier: float, rounds: int, delta: float) -> float:
    """Of rounds that a unit enters by an independent coin, one clip from its absence."""
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
        if client_rate < 1:
            added = math.log(client_rate) + exponent
            exponent = float(np.logaddexp(math.log1p(-client_rate), added))
        return rounds * exponent / (order - 1)

    return _least_epsilon(divergence, delta)


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


def least_delta(
    epsilon: float,
    *,
    weights: Floats,
    releases: int,
    noise_multiplier: float,
    replaces: bool = False,
) -> float:
    """A lower bound on delta between a unit that came in k times with chance `weights[k]` in so
    many releases, and one that sent nothing; with `replaces`, one that sent the opposite."""
    times = np.flatnonzero(weights > _NEGLIGIBLE)
    chance, deviation = weights[times], noise_multiplier * math.sqrt(releases)
    reach = float(times.max(initial=0)) + 9 * deviation
    edges = np.concatenate([[-np.inf], np.linspace(-reach, reach, _CELLS), [np.inf]])
    there = _cells(edges, times.astype(np.float64), chance, deviation)
    if replaces:
        other = _cells(edges, -times.astype(np.float64), chance, deviation)
    else:
        other = _cells(edges, np.zeros(1), np.ones(1), deviation)
    # exp(epsilon) may overflow, and an epsilon as large is refuted by nothing.
    factor = math.exp(min(epsilon, 700.0))
    return max(
        float(np.maximum(left - factor * right, 0.0).sum())
        for left, right in ((there, other), (other, there))
    )


def least_delta_of_coins(
    epsilon: float, *, rate: float, rounds: int, noise_multiplier: float, replaces: bool = False
) -> float:
    """Of rounds that a unit enters by a coin, or as one of a sample of that share."""
    weights = stats.binom(rounds, rate).pmf(np.arange(rounds + 1))
    return least_delta(
        epsilon,
        weights=weights,
        releases=rounds,
        noise_multiplier=noise_multiplier,
        replaces=replaces,
    )


def least_delta_of_samples(
    epsilon: float, *, rate: float, rounds: int, noise_multiplier: float
) -> float:
    """Of rounds that a unit enters by an independent coin, against its absence.

    The attacker sees every round by itself: which of many intervals it falls into, and the
    logarithms of their chances' ratios, rounded down to a grid, added up over rounds by a Fourier
    transform. A ratio is at least 1 - rate, so nothing wraps around the grid's end from below.
    """
    reach = 12 * noise_multiplier
    edges = np.concatenate([[-np.inf], np.linspace(-reach, reach + 1, _FINE_CELLS), [np.inf]])
    without = _cells(edges, np.zeros(1), np.ones(1), noise_multiplier)
    chance = (1 - rate) * without + rate * _cells(edges, np.ones(1), np.ones(1), noise_multiplier)
    some = (chance > 0) & (without > 0)
    least = math.log1p(-rate) if rate < 1 else -reach / noise_multiplier**2
    losses = np.maximum(np.log(chance[some]) - np.log(without[some]), least)
    step = (2 * (abs(epsilon) - rounds * least) + 1) / _GRID
    places = np.minimum(np.floor((losses - least) / step), _GRID - 1).astype(np.int64)
    # What is beyond the end wraps to smaller ratios, which refute less.
    one = np.bincount(places, weights=chance[some], minlength=_GRID)
    summed = np.fft.irfft(np.fft.rfft(one) ** rounds, _GRID)
    sums = rounds * least + step * np.arange(_GRID)
    return float((summed * np.maximum(-np.expm1(epsilon - np.maximum(sums, epsilon)), 0.0)).sum())


def least_delta_of_two_stages(
    epsilon: float,
    *,
    client_rate: float,
    record_rate: float,
    steps: int,
    rounds: int,
    noise_multiplier: float,
) -> float:
    """Of rounds that a client enters by a coin, and a record each of their steps by another.

    A client that is alone changes the model in the rounds that it enters only, so how many these
    were is seen (`fedaudit.training.records.personalised_round`).
    """
    found = 0.0
    for taking_part in range(1, rounds + 1):
        share = float(stats.binom(rounds, client_rate).pmf(taking_part))
        if share > _NEGLIGIBLE:
            found += share * least_delta_of_coins(
                epsilon,
                rate=record_rate,
                rounds=taking_part * steps,
                noise_multiplier=noise_multiplier,
            )
    return found


def _cells(edges: Floats, means: Floats, weights: Floats, deviation: float) -> Floats:
    """The chance of each interval under a mixture of normal numbers."""
    found = np.zeros(len(edges) - 1)
    for mean, weight in zip(means.tolist(), weights.tolist(), strict=True):
        away = (edges - mean) / deviation
        below, above = special.ndtr(away), special.ndtr(-away)
        # The smaller tails keep their digits: beside a factor of exp(epsilon) they count.
        found += weight * np.where(away[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    return found
