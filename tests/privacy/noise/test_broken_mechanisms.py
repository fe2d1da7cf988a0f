"""Mechanisms broken on purpose are caught by their distribution and, in low dimension, by attack.

Verdicts reject at `FALSE_ALARM` = 1e-6; each broken mechanism of the catalogue is caught with a
power of at least `POWER` = 0.999, by the bound in `looks_right.power`. The empirical privacy losses
are lower bounds of confidence 1 - 1e-6, with the power worked out from the exact binomials.
"""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from fedaudit.privacy.noise.gaussian import LocalGaussian, unit_gaussian
from fedaudit.randomness import CounterSource
from tests.privacy.broken_samplers import (
    BROKEN_GAUSSIAN,
    BROKEN_LAPLACE,
    BROKEN_SAMPLING,
    DEVIATION,
    INCLUSION,
    LAPLACE_EPSILON,
    gaussian,
    laplace,
    sampling,
)
from tests.privacy.looks_right import (
    FALSE_ALARM,
    gaussian_checks,
    laplace_checks,
    looks_right,
    power,
    sampling_checks,
)

POWER = 0.999


@pytest.mark.parametrize("n", [1, 2, 11])
def test_the_laplace_mechanism_looks_right(n: int) -> None:
    assert looks_right(laplace_checks(laplace(n), epsilon=LAPLACE_EPSILON)) > FALSE_ALARM


@pytest.mark.parametrize("name", BROKEN_LAPLACE)
def test_a_broken_laplace_mechanism_is_caught(name: str) -> None:
    broken, dimensions = BROKEN_LAPLACE[name]
    for n in dimensions:
        checks = laplace_checks(broken(n), epsilon=LAPLACE_EPSILON)
        assert looks_right(checks) < FALSE_ALARM
        assert power(checks) >= POWER


@pytest.mark.parametrize("n", [1, 2, 10])
def test_the_gaussian_mechanism_looks_right(n: int) -> None:
    assert looks_right(gaussian_checks(gaussian(n), deviation=DEVIATION)) > FALSE_ALARM


@pytest.mark.parametrize("name", BROKEN_GAUSSIAN)
def test_a_broken_gaussian_mechanism_is_caught(name: str) -> None:
    broken, dimensions = BROKEN_GAUSSIAN[name]
    for n in dimensions:
        checks = gaussian_checks(broken(n), deviation=DEVIATION)
        assert looks_right(checks) < FALSE_ALARM
        assert power(checks) >= POWER


def test_record_sampling_looks_right() -> None:
    assert looks_right(sampling_checks(sampling(), inclusion=INCLUSION)) > FALSE_ALARM


@pytest.mark.parametrize("name", BROKEN_SAMPLING)
def test_broken_record_sampling_is_caught(name: str) -> None:
    checks = sampling_checks(BROKEN_SAMPLING[name](), inclusion=INCLUSION)
    assert looks_right(checks) < FALSE_ALARM
    assert power(checks) >= POWER


# -- empirical privacy loss ----------------------------------------------------------------------

DRAWS = 200_000


def largest_loss(first: int, second: int, *, delta: float = 0.0) -> float:
    """A lower bound on epsilon, of confidence 1 - FALSE_ALARM (Clopper and Pearson).

    Of DRAWS releases under each of two inputs, so many fell into an event that was fixed before:
    P1 <= exp(epsilon) P2 + delta.
    """
    least = stats.beta.ppf(FALSE_ALARM / 2, first, DRAWS - first + 1)
    most = stats.beta.isf(FALSE_ALARM / 2, second + 1, DRAWS - second)
    return math.log(max(least - delta, 1e-300) / most)


def surely_exceeds(claim: float, *, first: float, second: float, delta: float = 0.0) -> bool:
    """Whether events of these probabilities show a loss beyond the claim with chance POWER."""
    missed = (1 - POWER) / 2
    fewest = int(stats.binom(DRAWS, first).ppf(missed))
    most = int(stats.binom(DRAWS, second).isf(missed))
    return largest_loss(fewest, most, delta=delta) > claim


def gaussian_delta(epsilon: float, sigma: float) -> float:
    """The smallest delta of one release of sensitivity 1 (Balle and Wang, 2018)."""
    shift, tail = 1 / (2 * sigma), epsilon * sigma
    return float(stats.norm.cdf(shift - tail) - math.exp(epsilon) * stats.norm.cdf(-shift - tail))


def gaussian_releases(update: float, *, shrink: float, seed: int) -> NDArray[np.float64]:
    """Releases of a client whose update is clipped to 1, with a noise multiplier of 1."""
    noise = unit_gaussian(CounterSource(seed), n=1, round_=1, counters=np.arange(DRAWS))
    one = torch.ones(1, 1, dtype=torch.float64)
    release = LocalGaussian(clip=one, noise_multiplier=one)
    start = torch.zeros(1, DRAWS, 1)
    uploads, _ = release(start, start + update, torch.from_numpy(shrink * noise)[None])
    return uploads[0, :, 0].numpy().astype(np.float64)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
def test_the_scalar_gaussian_keeps_its_delta_and_noise_that_is_too_small_does_not(epsilon):
    """An update of 7 is clipped to 1, against one of 0.

    The event is the best one for this epsilon and the noise that there is.
    """
    delta = gaussian_delta(epsilon, 1.0)
    thresholds = {shrink: 0.5 + epsilon * shrink**2 for shrink in (1.0, 0.8)}
    found = {}
    for shrink, threshold in thresholds.items():
        first, second = (
            gaussian_releases(update, shrink=shrink, seed=seed) > threshold
            for update, seed in ((7.0, 1), (0.0, 2))
        )
        found[shrink] = largest_loss(int(first.sum()), int(second.sum()), delta=delta)
    assert epsilon - 0.3 < found[1.0] <= epsilon < found[0.8]
    first, second = (stats.norm(loc, 0.8).sf(thresholds[0.8]) for loc in (1.0, 0.0))
    assert surely_exceeds(epsilon, first=first, second=second, delta=delta)
