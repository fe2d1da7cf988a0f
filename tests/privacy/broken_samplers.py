"""Mechanisms that are broken the way people break them; every one claims to be the right one."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.noise.gaussian import unit_gaussian
from fedaudit.privacy.noise.laplace import unit_laplace
from fedaudit.privacy.records.record_use import tossed_coins
from fedaudit.randomness import CounterSource

Numbers = NDArray[np.float64]
Coins = NDArray[np.bool_]

LAPLACE_EPSILON = 0.5
LAPLACE_DRAWS = 40_000
DEVIATION = 3.0
GAUSSIAN_DRAWS = 20_000
STEPS, RECORDS = 2000, 2000
INCLUSION = np.repeat([0.01, 0.2], RECORDS // 2)


def laplace(n: int) -> Numbers:
    """The mechanism itself: [draws, n]."""
    counters = np.arange(LAPLACE_DRAWS)
    noise = unit_laplace(CounterSource(1), n=n, round_=1, counters=counters)
    draws: Numbers = noise.astype(np.float64) / LAPLACE_EPSILON
    return draws


def _per_coordinate(n: int) -> Numbers:
    size = (LAPLACE_DRAWS, n)
    return np.random.default_rng(1).laplace(scale=1 / LAPLACE_EPSILON, size=size)


def _no_floor(n: int) -> Numbers:
    """The adaptive radius of clients of whom one in ten had nothing to learn."""
    noise = laplace(n)
    noise[::10] = 0.0
    return noise


def _normal_instead(n: int) -> Numbers:
    """A Gaussian of the same component variance, (n + 1) / epsilon^2."""
    counters = np.arange(LAPLACE_DRAWS)
    noise = unit_gaussian(CounterSource(1), n=n, round_=1, counters=counters)
    draws: Numbers = noise.astype(np.float64) * np.sqrt(n + 1) / LAPLACE_EPSILON
    return draws


def _towards_the_corners(n: int) -> Numbers:
    corner = np.random.default_rng(1).uniform(-1, 1, size=(LAPLACE_DRAWS, n))
    length = np.linalg.norm(laplace(n), axis=1) / np.linalg.norm(corner, axis=1)
    draws: Numbers = corner * length[:, None]
    return draws


BROKEN_LAPLACE: dict[str, tuple[Callable[[int], Numbers], tuple[int, ...]]] = {
    "noise too small by 20 %": (lambda n: 0.8 * laplace(n), (1, 2, 11)),
    "rate and scale swapped": (lambda n: laplace(n) * LAPLACE_EPSILON**2, (1, 2, 11)),
    "Laplace per coordinate": (_per_coordinate, (2, 11)),
    "no floor under the radius": (_no_floor, (1, 2, 11)),
    "a normal norm": (_normal_instead, (1, 2, 11)),
    "directions towards the corners": (_towards_the_corners, (11,)),
    "no sign": (lambda n: np.abs(laplace(n)), (1, 2, 11)),
}
"""By name: draws for a dimension, and the dimensions in which it differs."""


def gaussian(n: int) -> Numbers:
    """The mechanism itself: [draws, n]."""
    counters = np.arange(GAUSSIAN_DRAWS)
    noise = unit_gaussian(CounterSource(2), n=n, round_=1, counters=counters)
    return DEVIATION * noise.astype(np.float64)


def _laplace_instead(n: int) -> Numbers:
    scale = DEVIATION / np.sqrt(2)
    return np.random.default_rng(2).laplace(scale=scale, size=(GAUSSIAN_DRAWS, n))


def _unchosen_blocks(n: int) -> Numbers:
    """Noise on the first of two blocks only."""
    noise = gaussian(n)
    noise[:, (n + 1) // 2 :] = 0.0
    return noise


BROKEN_GAUSSIAN: dict[str, tuple[Callable[[int], Numbers], tuple[int, ...]]] = {
    "noise too small by 20 %": (lambda n: 0.8 * gaussian(n), (1, 2, 10)),
    "variance for deviation": (lambda n: gaussian(n) / np.sqrt(DEVIATION), (1, 2, 10)),
    "variance shared by the components": (lambda n: gaussian(n) / np.sqrt(n), (2, 10)),
    "Laplace instead": (_laplace_instead, (1, 2, 10)),
    "one number for all components": (lambda n: gaussian(1).repeat(n, axis=1), (2, 10)),
    "no noise on what nobody chose": (_unchosen_blocks, (2, 10)),
}


def sampling() -> Coins:
    """The sampler itself: [steps, records]."""
    return tossed_coins(CounterSource(3), steps=np.arange(STEPS), silos=0, inclusion=INCLUSION)


def _tossed(inclusion: Numbers) -> Coins:
    return np.random.default_rng(3).uniform(size=(STEPS, RECORDS)) < inclusion


def _fixed_size() -> Coins:
    """Batches without replacement, of the expected size, from each half."""
    keys = np.random.default_rng(3).uniform(size=(STEPS, RECORDS))
    taken = np.zeros((STEPS, RECORDS), dtype=np.bool_)
    for half, q in ((slice(0, RECORDS // 2), 0.01), (slice(RECORDS // 2, None), 0.2)):
        order = keys[:, half].argsort(1).argsort(1)
        taken[:, half] = order < round(q * RECORDS / 2)
    return taken


def _one_coin_for_all_steps() -> Coins:
    return _tossed(INCLUSION)[:1].repeat(STEPS, axis=0)


def _one_coin_for_all_records() -> Coins:
    words = np.random.default_rng(3).uniform(size=(STEPS, 1))
    return words < INCLUSION


BROKEN_SAMPLING: dict[str, Callable[[], Coins]] = {
    "q ignored": lambda: _tossed(np.full(RECORDS, INCLUSION.mean())),
    "q of another record": lambda: _tossed(INCLUSION[::-1]),
    "q too large by 20 %": lambda: _tossed(1.2 * INCLUSION),
    "batches of a fixed size": _fixed_size,
    "one coin for all steps": _one_coin_for_all_steps,
    "one coin for all records": _one_coin_for_all_records,
}
