"""Noise that is too small is caught by attack. Bounds have a confidence of 1 - 1e-6 and a power of
at least `POWER`, worked out from the exact binomials."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats

from fedaudit.privacy.noise.gaussian import LocalGaussian, unit_gaussian
from fedaudit.randomness import CounterSource

FALSE_ALARM = 1e-6
POWER = 0.999


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
