"""The Laplace mechanism under Euclidean distance against its theory (Galli et al., section 4).

Statistical checks use fixed seeds and reject at `FALSE_ALARM`: for a new seed each of them would
fail by chance once in a million times. `deviations` finds the mechanisms that are broken on
purpose, so a sampler that passes it is not one that anything would pass.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from fedaudit.privacy.noise.gaussian import unit_gaussian, wide_normals
from fedaudit.privacy.noise.laplace import (
    _marsaglia_tsang,
    _squared_length,
    squared_distances,
    unit_gamma,
)
from fedaudit.randomness import CounterSource, EntropySource, Purpose
from tests.native_fallback import fallback_only
from tests.privacy.layered_noise import layer_sanitiser, unit_laplace

FALSE_ALARM = 1e-6
CNN_PARAMETERS = 1_206_590
DRAWS = {1: 40_000, 2: 40_000, 11: 20_000, 1000: 2_000}

Draws = NDArray[np.float64]


def draw(n: int, *, eps: float = 1.0, seed: int = 1, draws: int | None = None) -> Draws:
    """[draws, n] from the mechanism under test."""
    counters = np.arange(draws or DRAWS[n])
    noise = unit_laplace(CounterSource(seed), n=n, round_=1, counters=counters)
    assert noise.dtype == np.float64
    return noise / eps


def deviations(noise: Draws, *, eps: float) -> set[str]:
    """In what draws [draws, n] differ from the density K exp(-eps ||x||)."""
    draws, n = noise.shape
    norm = np.linalg.norm(noise, axis=1)
    unit = noise / norm[:, None]
    pvalues = {"norm": stats.kstest(norm, stats.gamma(n, scale=1 / eps).cdf).pvalue}
    # The mean direction of isotropic draws: its length squared times n * draws is chi-square.
    pvalues["direction"] = stats.chi2.sf(n * draws * np.square(unit.mean(0)).sum(), n)
    if n > 1:
        component = stats.beta(0.5, (n - 1) / 2)
        for place in (0, n // 2, n - 1):
            square = np.square(unit[:, place])
            pvalues[f"component {place}"] = stats.kstest(square, component.cdf).pvalue
        pvalues["exchange"] = stats.ks_2samp(noise[:, 0], noise[:, -1]).pvalue
        pvalues["independence"] = stats.spearmanr(norm, np.square(unit[:, 0])).pvalue
        pvalues["correlation"] = stats.pearsonr(noise[:, 0], noise[:, -1]).pvalue
    return {name for name, pvalue in pvalues.items() if pvalue < FALSE_ALARM}


@pytest.mark.parametrize("n", DRAWS)
def test_draws_follow_the_density(n: int) -> None:
    assert deviations(draw(n), eps=1.0) == set()


def test_the_largest_network() -> None:
    draws = draw(CNN_PARAMETERS, draws=4)
    norm = np.linalg.norm(draws, axis=1)
    n = CNN_PARAMETERS
    for pvalue in stats.gamma(n).cdf(norm):
        assert FALSE_ALARM < pvalue < 1 - FALSE_ALARM
    assert len(set(norm.tolist())) == 4
    for one, length in zip(draws, norm, strict=True):
        # Components of a direction, times sqrt(n), are normal but for a factor of 1 + 1/n.
        assert stats.kstest(one[::10] / length * np.sqrt(n), "norm").pvalue > FALSE_ALARM
    cosines = (draws @ draws.T / np.outer(norm, norm))[np.triu_indices(4, 1)]
    assert np.abs(cosines).max() < stats.norm.isf(FALSE_ALARM / 12) / np.sqrt(n)


def per_coordinate(n: int) -> Draws:
    return np.random.default_rng(1).laplace(size=(DRAWS[n], n))


def along_a_cube(n: int) -> Draws:
    corner = np.random.default_rng(1).uniform(-1, 1, size=(DRAWS[n], n))
    norm = np.linalg.norm(draw(n), axis=1)
    along: Draws = corner / np.linalg.norm(corner, axis=1)[:, None] * norm[:, None]
    return along


def counted_in_layers(n: int) -> Draws:
    noise = draw(n)
    norm = np.random.default_rng(1).gamma(2, size=len(noise))
    short: Draws = noise / np.linalg.norm(noise, axis=1)[:, None] * norm[:, None]
    return short


@pytest.mark.parametrize(
    ("broken", "eps", "sizes"),
    [
        (lambda n: 0.8 * draw(n), 1.0, (1, 2, 11, 1000)),
        (lambda n: draw(n, eps=1 / 2), 2.0, (1, 2, 11, 1000)),  # rate and scale swapped
        (per_coordinate, 1.0, (2, 11, 1000)),
        (counted_in_layers, 1.0, (1, 11, 1000)),
        (along_a_cube, 1.0, (2, 11)),
        (lambda n: np.abs(draw(n)), 1.0, (1, 2, 11)),
        (lambda n: draw(n) * np.linspace(0.9, 1.1, n), 1.0, (2, 11)),
    ],
    ids=["too small", "swapped", "per coordinate", "layers", "cube", "positive", "stretched"],
)
def test_mechanisms_broken_on_purpose_are_caught(broken, eps, sizes):
    for n in sizes:
        assert deviations(broken(n), eps=eps)


# -- gamma numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [2, 11, 16])
def test_rejection_and_the_product_of_uniforms_agree(shape: int) -> None:
    counters = np.arange(40_000)
    product = unit_gamma(CounterSource(1), shape=shape, round_=0, counters=counters)
    rejection = _marsaglia_tsang(
        CounterSource(2), shape=shape, round_=0, counters=counters, purpose=Purpose.MAGNITUDE
    )
    assert product.dtype == rejection.dtype == np.float64
    assert stats.ks_2samp(product, rejection).pvalue > FALSE_ALARM
    for numbers in (product, rejection):
        assert stats.kstest(numbers, stats.gamma(shape).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("shape", [17, 1000, CNN_PARAMETERS])
def test_large_shapes(shape: int) -> None:
    numbers = unit_gamma(CounterSource(3), shape=shape, round_=0, counters=np.arange(40_000))
    assert stats.kstest(numbers, stats.gamma(shape).cdf).pvalue > FALSE_ALARM


class Unlucky:
    """Words with which the first eight attempts at a gamma number fail."""

    def wide_words(self, *, purpose: Purpose, round_: object, counters: object, count: int):  # type: ignore[no-untyped-def]
        found = CounterSource(1).wide_words(
            purpose=purpose, round_=0, counters=np.arange(3), count=count
        )
        bad = np.array([0, 0, 2**64 - 1, 0] * 8, dtype=np.uint64)
        found[:, : 8 * 4] = bad[:count]  # a normal number of 9.4, and u near 1
        return found


def test_a_gamma_number_tries_again_until_it_is_accepted() -> None:
    numbers = unit_gamma(Unlucky(), shape=100, round_=0, counters=0)
    assert numbers.shape == (3,)
    assert np.all((numbers > 40) & (numbers < 180))


# -- keys ----------------------------------------------------------------------------------------


UNITS = [(unit_laplace, n) for n in (1, 2, 11, 40)] + [(unit_gaussian, n) for n in (1, 13, 40_001)]


@pytest.mark.parametrize(("unit", "n"), UNITS)
def test_noise_depends_on_seed_round_and_client_alone(unit, n):
    seeds = np.array([7, 8], dtype=np.uint64).reshape(-1, 1)
    together = unit(
        CounterSource(seeds), n=n, round_=np.array([[1], [2]]), counters=np.array([[5, 9], [9, 3]])
    )
    alone = unit(CounterSource(8), n=n, round_=2, counters=9)
    assert np.array_equal(together[1, 0], alone)
    drawn = {
        unit(CounterSource(seed), n=n, round_=round_, counters=client).tobytes()
        for seed in (7, 8)
        for round_ in (1, 2)
        for client in (5, 9)
    }
    assert len(drawn) == 8


def test_secret_noise_is_never_the_same_and_follows_the_density() -> None:
    first, second = (
        unit_laplace(EntropySource(), n=11, round_=1, counters=np.arange(20_000)) for _ in range(2)
    )
    assert not np.isin(first, second).all(axis=1).any()
    assert deviations(first.astype(np.float64), eps=1.0) == set()


# -- the guarantee -------------------------------------------------------------------------------


def outputs(updated: NDArray[np.float32], *, shrink: float, seed: int) -> Draws:
    """Releases of one update [n] at a fixed radius of 1 and nu = n, so epsilon = 1."""
    n, draws = len(updated), 400_000
    noise = unit_laplace(CounterSource(seed), n=n, round_=1, counters=np.arange(draws))
    sanitise = layer_sanitiser((n,), nu=n, radius=1.0, floor=1.0, per_layer=False)
    uploads, _ = sanitise(
        torch.zeros(1, draws, n),
        torch.from_numpy(updated).expand(1, draws, n),
        torch.from_numpy(noise * np.float32(shrink))[None],
    )
    return uploads[0].numpy().astype(np.float64)


def exceeds(n: int, distance: float, *, shrink: float = 1.0) -> bool:
    """Whether some region is likelier than exp(epsilon * distance) allows, epsilon being 1.

    Of the releases of two updates that fell into a region, the share of one is binomial; the false
    alarms of all regions together stay below FALSE_ALARM.
    """
    other = np.zeros(n, dtype=np.float32)
    other[0] = distance
    edges = np.linspace(-4, 4 + distance, 17)
    edges[0], edges[-1] = -np.inf, np.inf
    first, second = (
        np.histogramdd(outputs(update, shrink=shrink, seed=seed), bins=[edges] * n)[0]
        for update, seed in ((np.zeros(n, dtype=np.float32), 1), (other, 2))
    )
    share = np.exp(distance) / (1 + np.exp(distance))
    total = first + second
    worst = min(
        stats.binom.sf(counts - 1, total, share)[total > 0].min() for counts in (first, second)
    )
    return bool(worst < FALSE_ALARM / (2 * total.size))


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("distance", [0.25, 1.0, 2.0])
def test_no_region_tells_two_updates_apart_beyond_the_bound(n: int, distance: float) -> None:
    assert not exceeds(n, distance)


@pytest.mark.parametrize("n", [1, 2])
def test_noise_that_is_too_small_breaks_the_bound(n: int) -> None:
    assert exceeds(n, 1.0, shrink=0.8)


VECTORS = st.integers(1, 12).flatmap(
    lambda n: st.lists(
        st.lists(st.floats(-1e3, 1e3), min_size=n, max_size=n), min_size=3, max_size=3
    )
)


@given(
    st.lists(st.tuples(VECTORS, st.floats(0.01, 100), st.floats(1e-3, 1e3)), min_size=1, max_size=4)
)
def test_the_log_ratio_of_densities_is_bounded(rounds):
    """Theorem 4.2 for a transcript of several rounds with fixed radii."""
    ratio, bound, epsilons = 0.0, 0.0, []
    for (one, other, released), nu, radius in rounds:
        n = len(one)
        eps = n / (nu * radius)
        ratio += eps * (_distance(released, other) - _distance(released, one))
        epsilons.append(eps)
        bound += eps * _distance(one, other)
    assert abs(ratio) <= bound * (1 + 1e-9) + 1e-6 * max(epsilons)


def _distance(one: list[float], other: list[float]) -> float:
    return float(np.linalg.norm(np.subtract(one, other)))


# -- one client's long vector gets the numbers that a stack of clients would ----------------------


PART = 1 << 16


def test_distances_are_those_in_double_precision() -> None:
    random = np.random.default_rng(1)
    for clients, n in ((1, 3), (4, 3 * PART + 7), (PART + 1, 2)):
        vectors = random.normal(size=(clients, n)).astype(np.float32)
        point = random.normal(size=n).astype(np.float32)
        found = squared_distances(torch.from_numpy(vectors), torch.from_numpy(point))
        expected = np.square((vectors - point).astype(np.float64)).sum(1)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("n", [65_537, 131_080, 524_289, 1_206_590])
def test_squared_lengths_are_those_of_all_numbers_at_once(n: int) -> None:
    vectors = np.random.default_rng(1).standard_normal((2, n + 1))[:, :n]
    assert np.array_equal(_squared_length(vectors), np.square(vectors).sum(-1))


@pytest.mark.parametrize("n", [1, 300, 40_001])
def test_numbers_in_the_place_of_their_words_are_the_same(n: int) -> None:
    source, purpose, counters = CounterSource(1), Purpose.DIRECTION, np.arange(3)
    words = source.wide_words(purpose=purpose, round_=1, counters=counters, count=n + n % 2)
    expected = wide_normals(words)[:, :n]
    drawn = unit_gaussian(source, purpose=purpose, n=n, round_=1, counters=counters)
    assert np.array_equal(drawn, expected)
    with fallback_only():
        drawn = unit_gaussian(source, purpose=purpose, n=n, round_=1, counters=counters)
    assert np.array_equal(drawn, expected)
