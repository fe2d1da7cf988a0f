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
from fedaudit.privacy.noise.laplace import Sanitiser, unit_laplace
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


def laplace_releases(
    n: int, *, at: float, shrink: float, seed: int, radius: float = 1.0
) -> NDArray[np.float64]:
    """Of an update at distance `at` from zero, at a fixed radius and epsilon = 2: [DRAWS, n]."""
    noise = unit_laplace(CounterSource(seed), n=n, round_=1, counters=np.arange(DRAWS))
    one = torch.ones(1, 1, dtype=torch.float64)
    sanitise = Sanitiser(
        n=n, noise_scale=one / 2, fixed_radius=radius * one, radius_floor=one, clip=None
    )
    updated = torch.zeros(1, DRAWS, n)
    updated[..., 0] = at
    uploads, _ = sanitise(torch.zeros(1, DRAWS, n), updated, torch.from_numpy(shrink * noise)[None])
    return uploads[0].numpy().astype(np.float64)


def nearer(releases: NDArray[np.float64]) -> int:
    """How many lie nearer to (1, 0, ...) than to 0, by 0.95 at least: where the loss is largest."""
    other = np.zeros(releases.shape[1])
    other[0] = 1.0
    difference = np.linalg.norm(releases, axis=1) - np.linalg.norm(releases - other, axis=1)
    return int(np.count_nonzero(difference >= 0.95))


def laplace_loss(n: int, shrink: float) -> tuple[int, int]:
    """Releases in the event from the update at 1 and from the one at 0."""
    first = nearer(laplace_releases(n, at=1.0, shrink=shrink, seed=1))
    second = nearer(laplace_releases(n, at=0.0, shrink=shrink, seed=2))
    return first, second


@pytest.mark.parametrize("n", [1, 2])
def test_no_attack_shows_more_than_laplace_claims(n: int) -> None:
    """epsilon * distance = 2, and the bound comes close: the attack is a good one."""
    found = largest_loss(*laplace_loss(n, 1.0))
    assert 1.8 < found <= 2.0


@pytest.mark.parametrize("n", [1, 2])
def test_an_attack_catches_laplace_noise_that_is_too_small(n: int) -> None:
    """Its true loss is 2 / 0.8 = 2.5."""
    first, second = laplace_loss(n, 0.8)
    assert 2.0 < largest_loss(first, second) <= 2.5
    # With the events' probabilities within five standard deviations of what was found, each to
    # the side where the attack is weaker.
    assert surely_exceeds(
        2.0,
        first=(first - 5 * math.sqrt(first)) / DRAWS,
        second=(second + 5 * math.sqrt(second)) / DRAWS,
    )


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
def test_the_scalar_gaussian_keeps_its_delta_and_noise_that_is_too_small_does_not(
    epsilon: float,
) -> None:
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
