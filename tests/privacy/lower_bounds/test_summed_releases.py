"""Sums of releases: that in which noise cancels is found, and tells no more than is so."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from fedaudit.privacy.accounting.privacy_events import Adjacency
from fedaudit.privacy.lower_bounds.epsilon_bounds import (
    QuietSum,
    releases_in_sum,
    summed_epsilon,
    summed_power,
)
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, gaussian_epsilon

SIGNIFICANCE, REPEATS, RELEASES = 0.1, 200, 8
ALIKE = np.eye(RELEASES)
COVARIANCES = {
    "as claimed": ALIKE,
    "telescoping": ALIKE - (np.eye(RELEASES, k=1) + np.eye(RELEASES, k=-1)) / 2,
    "shared": 0.81 * np.ones_like(ALIKE) + 0.19 * ALIKE,
    "cancelling": np.kron(np.eye(RELEASES // 2), [[1.0, -1 + 1e-6], [-1 + 1e-6, 1.0]]),
}


def _tried(
    covariance: np.ndarray, *, canaries: int, deviation: float, numbers: int = 100
) -> Iterator[tuple[float, float, float]]:
    """The bound, the truth for its sum, and what no sum passes where noise is as claimed."""
    generator = np.random.default_rng(canaries)
    root = deviation * np.linalg.cholesky(covariance)
    moments = np.arange(RELEASES)
    for _ in range(REPEATS):
        noise = root @ generator.standard_normal((RELEASES, 2 * numbers))
        signal = np.zeros((RELEASES, numbers))
        signal[:, :canaries] = np.sign(generator.standard_normal((RELEASES, canaries)))
        found = QuietSum.of_noise(noise[:, numbers:], moments)
        assert np.abs(found.weights).sum() == pytest.approx(1.0)
        ratio = found.least_ratio(signal + noise[:, :numbers], signal, significance=SIGNIFICANCE)
        own = deviation * math.sqrt(found.weights @ covariance @ found.weights)
        yield ratio, 1 / own, math.sqrt(RELEASES) / deviation


@pytest.mark.parametrize("canaries", [2, 5, 40])
@pytest.mark.parametrize("name", COVARIANCES)
def test_it_is_wrong_no_more_often_than_it_says(name: str, canaries: int) -> None:
    tried = list(_tried(COVARIANCES[name], canaries=canaries, deviation=3.0))
    wrong = sum(ratio > truth for ratio, truth, _ in tried)
    # Four standard deviations of a binomial number above the significance.
    assert wrong <= REPEATS * SIGNIFICANCE + 4 * math.sqrt(REPEATS * SIGNIFICANCE * 0.9)
    if name == "as claimed":
        assert all(truth <= most * (1 + 1e-9) for _, truth, most in tried)
    elif canaries == 40:
        assert np.median([ratio / most for ratio, _, most in tried]) > 1


def test_its_power_is_about_what_is_stated() -> None:
    law = ReleaseLaw(ratio=0.5, rate=1.0, compositions=RELEASES, adjacency="add-or-remove-one")
    stated = summed_power(law, claimed=0.7, weight=20, numbers=200, significance=SIGNIFICANCE)
    tried = _tried(ALIKE, canaries=20, deviation=1.0)
    seen = np.mean([ratio > 0.7 * most for ratio, _, most in tried])
    assert 0.1 < stated < 0.99
    assert seen == pytest.approx(stated, abs=4 * (0.25 / REPEATS) ** 0.5)
    coins = ReleaseLaw(ratio=0.5, rate=0.5, compositions=8, adjacency="replace-one")
    assert summed_power(coins, claimed=0.5, weight=20, numbers=200, significance=0.1) == 0


def test_a_second_release_of_the_same_adds_no_length() -> None:
    """Of two releases of one moment no unit turns one alone, so their difference tells nothing."""
    generator = np.random.default_rng(0)
    noise = generator.standard_normal((3, 200))
    noise[2] = noise[1] + 1e-9 * generator.standard_normal(200)
    found = QuietSum.of_noise(noise, np.array([0, 1, 1]))
    assert abs(found.weights[0]) + abs(found.weights[1] + found.weights[2]) == pytest.approx(1.0)
    assert 1 / np.std(found.weights @ noise) == pytest.approx(math.sqrt(2), rel=0.2)


@pytest.mark.parametrize("adjacency", ["add-or-remove-one", "replace-one"])
def test_a_sampled_sum_tells_no_more_than_all_releases(adjacency: Adjacency) -> None:
    law = ReleaseLaw(ratio=0.5, rate=0.2, compositions=10, adjacency=adjacency)
    lengths = np.full(10, law.ratio / law.reach / math.sqrt(10))
    # What all of them tell is known from below, to less than a hundredth.
    assert 0 < summed_epsilon(law, lengths, 1e-5) < 1.01 * law.epsilon(1e-5)
    full, near = (
        ReleaseLaw(ratio=0.5, rate=rate, compositions=10, adjacency=adjacency)
        for rate in (1.0, 1 - 1e-9)
    )
    exact = gaussian_epsilon(law.reach * float(lengths.sum()), 1e-5)
    assert summed_epsilon(full, lengths, 1e-5) == exact
    assert 0.97 * exact < summed_epsilon(near, lengths, 1e-5) <= exact


def test_a_sum_without_noise_tells_what_chance_allows() -> None:
    law = ReleaseLaw(ratio=0.5, rate=1e-7, compositions=2, adjacency="add-or-remove-one")
    bare = np.full(2, 1e3)
    assert summed_epsilon(law, bare, 1e-5) == 0
    assert summed_epsilon(law, bare, 1e-8) > 100
    assert summed_epsilon(law, np.zeros(2), 1e-5) == 0


def test_few_numbers_or_canaries_give_no_bound() -> None:
    assert (releases_in_sum(1, 10_000), releases_in_sum(10, 15)) == (0, 0)
    assert (releases_in_sum(10, 40), releases_in_sum(500, 10_000)) == (5, 64)
    found = QuietSum.of_noise(np.zeros((2, 9)), np.arange(2))
    signal = np.zeros((2, 9))
    assert found.least_ratio(signal, signal, significance=0.01) == 0
    signal[:, :2] = 1.0
    assert found.least_ratio(signal, signal, significance=0.01) == 1e3
    assert found.least_ratio(-signal, signal, significance=0.01) == 0
