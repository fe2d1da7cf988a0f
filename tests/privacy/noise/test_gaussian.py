"""The Gaussian mechanism: its noise, its clip, and what leaves clients and server.

Statistical checks use fixed seeds and reject at `FALSE_ALARM`, so one of them fails by chance, for
a new seed, once in a million draws of that seed.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fedaudit.privacy.noise import gaussian as normal_numbers
from fedaudit.privacy.noise.gaussian import (
    LocalGaussian,
    clip_to_norm,
    noised_average,
    unit_gaussian,
    wide_normals,
)
from fedaudit.randomness import CounterSource, EntropySource, Purpose
from fedaudit.spec.privacy import LEAST_CLIP
from tests.privacy.gaussian_exact import exact_delta
from tests.privacy.layered_noise import column

FALSE_ALARM = 1e-6
LONG = 40_001  # odd, and beyond the numbers that are drawn at a time


def draw(source: CounterSource | EntropySource, n: int, draws: int) -> NDArray[np.float64]:
    numbers = unit_gaussian(source, n=n, round_=1, counters=np.arange(draws))
    assert numbers.dtype == np.float64
    assert numbers.shape == (draws, n)
    return numbers


@pytest.mark.parametrize("source", [CounterSource(1), EntropySource()], ids=["counter", "entropy"])
@pytest.mark.parametrize(("n", "draws"), [(1, 40_000), (2, 40_000), (11, 20_000), (LONG, 10)])
def test_noise_is_normal(source: CounterSource | EntropySource, n: int, draws: int) -> None:
    numbers = draw(source, n, draws)
    assert stats.kstest(numbers.ravel(), "norm").pvalue > FALSE_ALARM
    # The sum of squares, which a wrong scale moves most.
    tail = stats.chi2(numbers.size).cdf(np.square(numbers).sum())
    assert FALSE_ALARM / 2 < tail < 1 - FALSE_ALARM / 2
    for place in {0, n // 2, n - 1} if n < 100 else ():
        assert stats.kstest(numbers[:, place], "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize(("n", "draws"), [(2, 40_000), (11, 20_000), (LONG, 10)])
def test_components_and_draws_are_independent(n: int, draws: int) -> None:
    numbers = draw(CounterSource(2), n, draws)
    flat = numbers.ravel()
    # Neighbours, partners of Box and Muller, and the same place of the next draw.
    lags = {1, max(1, (n + 1) // 2), n, normal_numbers._CHUNK // 2 if n == LONG else 1}
    for lag in lags:
        for one, other in ((flat[:-lag], flat[lag:]), (flat[:-lag] ** 2, flat[lag:] ** 2)):
            assert stats.pearsonr(one, other).pvalue > FALSE_ALARM


def test_tails_reach_where_no_delta_sees_their_end() -> None:
    smallest = np.array([0, 0], dtype=np.uint64)
    assert abs(wide_normals(smallest)).max() > 9.4
    largest = np.array([[2**64 - 1, 0], [2**64 - 1, 2**63], [2**64 - 1, 2**64 - 1]], np.uint64)
    numbers = wide_normals(largest)
    assert np.isfinite(numbers).all()
    assert np.all(np.hypot(numbers[:, 0], numbers[:, 1]) > 0)
    # As many numbers beyond 4 as there should be.
    found = draw(CounterSource(3), LONG, 100)
    beyond = np.count_nonzero(np.abs(found) > 4)
    expected = stats.binom(found.size, 2 * stats.norm.sf(4))
    assert expected.ppf(FALSE_ALARM / 2) <= beyond <= expected.isf(FALSE_ALARM / 2)


def real_normals(
    words: NDArray[np.uint64],
) -> tuple[NDArray[np.longdouble], NDArray[np.longdouble]]:
    """What words [..., 2] stand for, and the radius, in extended precision."""
    wide = np.longdouble
    u = ((words[..., 0] >> np.uint64(1)).astype(wide) + wide(0.5)) * wide(2) ** -63
    radius = np.sqrt(-2 * np.log(u))
    pi = wide("3.14159265358979323846264338327950288")
    angle = words[..., 1].view(np.int64).astype(wide) * pi * wide(2) ** -63
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1), radius


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no extended precision here")
@pytest.mark.parametrize("bits", [0, 20, 40])
def test_a_number_lies_near_the_real_one_that_it_stands_for(bits: int) -> None:
    """With the radius far out in the tail too, where the words of the radius have 64 - bits."""
    words = CounterSource(5).wide_words(
        purpose=Purpose.GAUSSIAN, round_=1, counters=np.arange(50_000), count=2
    )
    words[:, 0] >>= np.uint64(bits)
    exact, radius = real_normals(words)
    error = np.abs(wide_normals(words) - exact).max(-1)
    assert (error <= 2.0**-49 * radius + 2.0**-53 / radius).all()
    assert bits or error.mean() < 2.0**-52


@pytest.mark.parametrize("bits", [0, 8, 24])
def test_the_next_word_gives_a_number_nearby(bits: int) -> None:
    """No step is wider than 2^-39 up to a radius of 6: no cell of the grid, 2^-12, is skipped."""
    words = CounterSource(6).wide_words(
        purpose=Purpose.GAUSSIAN, round_=1, counters=np.arange(50_000), count=2
    )
    words[:, 0] >>= np.uint64(bits)
    here = wide_normals(words)
    radius = np.hypot(here[:, 0], here[:, 1])
    # The next u that a float64 tells from this one, and the next angle.
    step = 2 ** np.maximum(1, np.frexp(words[:, 0].astype(np.float64))[1] - 52)
    for place, by in ((0, step), (1, 2**11)):
        after = words.copy()
        after[:, place] += np.broadcast_to(by, len(words)).astype(np.uint64)
        near = (radius > 2.0**-12) & (radius < 6) & (after[:, place] > words[:, place])
        assert near.sum() > 20_000
        assert np.abs(wide_normals(after) - here)[near].max() <= 2.0**-39


@pytest.mark.parametrize("n", [11, LONG])
def test_secret_noise_is_never_the_same(n: int) -> None:
    first, second = (draw(EntropySource(), n, 2) for _ in range(2))
    assert not np.isin(first, second).all(axis=1).any()


# -- clip ----------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-(2.0**126), 2.0**126, width=32), min_size=1, max_size=9),
    st.floats(1e-6, 1e6),
)
def test_clipped_vectors_are_never_longer_than_the_clip(values: list[float], clip: float) -> None:
    """Without any tolerance, and in their own direction."""
    vector = torch.tensor([values])
    (clipped,), (finite,) = clip_to_norm(vector, clip=clip)
    assert clipped.dtype == torch.float32
    assert finite
    norm = vector.double().norm().item()
    assert clipped.double().norm().item() <= clip
    if norm <= clip * (1 - 2.0**-20):
        assert torch.equal(clipped, vector[0])
    elif clip > 1e-3:
        assert clipped.double().norm().item() == pytest.approx(clip, rel=1e-5)
        assert torch.dot(clipped.double(), vector[0].double() / norm) >= clip * (1 - 1e-5)


@pytest.mark.parametrize("clip", [LEAST_CLIP, 1e-42])
def test_the_least_clip_keeps_long_updates_within_it_and_subnormals_do_not(clip: float) -> None:
    random = np.random.default_rng(3)
    updates = torch.from_numpy(random.standard_normal((4, 100_000)).astype(np.float32))
    clipped, _ = clip_to_norm(updates, clip=clip)
    within = clipped.double().norm(dim=1) <= clip
    assert within.tolist() == [clip == LEAST_CLIP] * 4


def test_norms_are_taken_in_float64() -> None:
    long = torch.full((1, 2_000_000), 1e-3)
    clipped, _ = clip_to_norm(long, clip=1.0)
    assert 1 - 2e-6 < clipped.double().norm().item() <= 1.0
    halves = torch.full((1, 100_000), 0.01, dtype=torch.bfloat16)
    clipped, _ = clip_to_norm(halves, clip=1.0)
    assert 1 - 2e-6 < clipped.double().norm().item() <= 1.0


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_vectors_that_are_not_finite_become_zero(broken: float) -> None:
    vectors = torch.tensor([[0.1, broken], [0.3, 0.4], [3.0, 4.0]])
    clipped, finite = clip_to_norm(vectors, clip=1.0)
    assert finite.tolist() == [False, True, True]
    torch.testing.assert_close(clipped, torch.tensor([[0.0, 0.0], [0.3, 0.4], [0.6, 0.8]]))


# -- mechanisms ----------------------------------------------------------------------------------


def test_a_client_releases_its_clipped_update_and_noise() -> None:
    release = LocalGaussian(clip=column(1.0, 10.0), noise_multiplier=column(2.0, 0.5))
    start = torch.ones(2, 1, 2)
    noise = torch.tensor([[[0.5, -0.25]]]).expand(2, 1, 2)
    uploads = release(start, start + torch.tensor([3.0, 4.0]), noise)
    assert uploads.dtype == torch.float32
    # Standard deviations 2 * 1 and 0.5 * 10; half a cell of the wider grid.
    expected = torch.tensor([[[1 + 0.6 + 1.0, 1 + 0.8 - 0.5]], [[1 + 3 + 2.5, 1 + 4 - 1.25]]])
    torch.testing.assert_close(uploads, expected, rtol=0, atol=2.0**-10)


def test_an_update_that_is_not_finite_counts_as_none() -> None:
    release = LocalGaussian(clip=column(1.0), noise_multiplier=column(1.0))
    start = torch.zeros(1, 2, 2)
    updated = torch.tensor([[[math.nan, 1.0], [0.0, 0.5]]])
    uploads = release(start, updated, torch.ones(1, 2, 2))
    assert uploads.tolist() == [[[1.0, 1.0], [1.0, 1.5]]]


def test_the_server_noises_every_block_and_divides_by_public_numbers() -> None:
    public = {"clip": column(2.0), "noise_multiplier": column(3.0), "denominators": column(10.0)}
    theta = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    sums = torch.tensor([[[5.0, -5.0], [0.0, 0.0]]])  # nobody chose the second
    noise = torch.tensor([[[1.0, 0.0], [-1.0, 2.0]]])
    found = noised_average(theta, sums, noise, **public)
    assert found.dtype == torch.float32
    expected = torch.tensor([[[1 + 1.1, 2 - 0.5], [3 - 0.6, 4 + 1.2]]])
    torch.testing.assert_close(found, expected)
    # Each hypothesis may have a separate denominator.
    public["denominators"] = torch.tensor([[2.0, 4.0]], dtype=torch.float64)
    own = noised_average(torch.zeros(1, 2, 1), torch.ones(1, 2, 1), torch.zeros(1, 2, 1), **public)
    assert own.flatten().tolist() == [0.5, 0.25]


# -- noise that is too small is caught by attack --------------------------------------------------

# Bounds have a confidence of 1 - 1e-6 and a power of at least POWER, by the exact binomials.


POWER, DRAWS = 0.999, 200_000


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


def gaussian_releases(update: float, *, shrink: float, seed: int) -> NDArray[np.float64]:
    """Releases of a client whose update is clipped to 1, with a noise multiplier of 1."""
    noise = unit_gaussian(CounterSource(seed), n=1, round_=1, counters=np.arange(DRAWS))
    one = torch.ones(1, 1, dtype=torch.float64)
    release = LocalGaussian(clip=one, noise_multiplier=one)
    start = torch.zeros(1, DRAWS, 1)
    uploads = release(start, start + update, torch.from_numpy(shrink * noise)[None])
    return uploads[0, :, 0].numpy().astype(np.float64)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 2.0])
def test_the_scalar_gaussian_keeps_its_delta_and_noise_that_is_too_small_does_not(epsilon):
    """An update of 7 is clipped to 1, against one of 0.

    The event is the best one for this epsilon and the noise that there is.
    """
    delta = exact_delta(epsilon, 1.0)
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
