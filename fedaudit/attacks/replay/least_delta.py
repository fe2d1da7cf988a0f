"""The least delta that a Gaussian release can have at an epsilon, by an attack that is computed.

The attacker adds up everything along the unit's own direction: a normal number whose mean counts
how often the unit came in. Probabilities of intervals are exact, and looking at intervals alone is
post-processing, so what is found never exceeds the truth: an epsilon that is refuted here is wrong,
whatever accountant gave it.
"""

import math

import numpy as np
from scipy import special, stats

from fedaudit.attacks.replay.passed_through import Floats

_CELLS = 1500
_FINE_CELLS, _GRID = 10_000, 1 << 18
_NEGLIGIBLE = 1e-14


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
    """Of rounds that a unit enters by its own coin, against its absence.

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

    A client that is alone changes the model in its own rounds only, so how many these were is seen
    (`fedaudit.training.personalised`).
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
