"""Correlated noise: it is what the matrix says, costs what is charged, and is near the real one."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import linalg, special

from fedaudit.privacy.noise.banded_noise import BandedNoise, banded_root, noise_of_sums

Floats = NDArray[np.float64]


def matrix(bands: int, rounds: int) -> Floats:
    """C, from binomials."""
    column = np.abs(special.binom(-0.5, np.arange(rounds)))
    column[bands:] = 0
    norm = np.linalg.norm(special.binom(-0.5, np.arange(bands)))
    return np.asarray(linalg.toeplitz(column / norm, np.zeros(rounds)))


@settings(deadline=None, max_examples=60)
@given(
    bands=st.integers(2, 64),
    cuts=st.lists(st.integers(1, 70), min_size=1, max_size=5),
    lost=st.sets(st.integers(0, 4)),
    seed=st.integers(0, 1 << 30),
)
def test_the_recurrence_is_the_inverse_of_the_matrix(
    bands: int, cuts: list[int], lost: set[int], seed: int
) -> None:
    """Cut anywhere, and resumed in parts of it by a worker that kept nothing: the same bits."""
    white = np.random.default_rng(seed).standard_normal((sum(cuts), 3))
    whole = white.copy()
    BandedNoise(bands).follow(whole, first=1, earlier=lambda rounds: white[rounds - 1].copy())
    exact = linalg.solve_triangular(matrix(bands, len(white)), white, lower=True)
    np.testing.assert_allclose(whole, exact, rtol=0, atol=1e-12)
    correlated, done = BandedNoise(bands), 0
    for part, rounds in enumerate(cuts):
        if part in lost:
            correlated = BandedNoise(bands)
        noise = white[done : done + rounds].copy()
        correlated.follow(noise, first=done + 1, earlier=lambda rounds: white[rounds - 1].copy())
        assert noise.tobytes() == whole[done : done + rounds].tobytes()
        done += rounds


def test_noise_that_cannot_be_drawn_again_begins_anew() -> None:
    white = np.random.default_rng(1).standard_normal((12, 2))
    found = white.copy()
    correlated = BandedNoise(3)
    correlated.follow(found[:4], first=1, earlier=None)
    correlated.follow(found[4:8], first=5, earlier=None)
    BandedNoise(3).follow(found[8:], first=9, earlier=None)
    blocks = linalg.block_diag(matrix(3, 8), matrix(3, 4))
    np.testing.assert_allclose(blocks @ found, white, rtol=0, atol=1e-12)


@pytest.mark.parametrize("bands", [2, 3, 4])
@pytest.mark.parametrize("anew", [None, 5], ids=["whole", "begun anew"])
def test_no_pattern_of_participation_moves_more_than_is_charged(
    bands: int, anew: int | None
) -> None:
    """Of every set of rounds with at least `bands` from one to the next, and the worst updates of
    one clip: all alike, since all coefficients are positive. Nearer rounds would move more."""
    rounds = 10
    parts = [rounds] if anew is None else [anew, rounds - anew]
    found = linalg.block_diag(*(matrix(bands, part) for part in parts))
    assert (found >= 0).all()
    largest = {True: 0.0, False: 0.0}
    for count in range(1, rounds + 1):
        for pattern in combinations(range(rounds), count):
            moved = np.linalg.norm(found[:, pattern].sum(axis=1))
            apart = bool((np.diff(pattern) >= bands).all())
            largest[apart] = max(largest[apart], float(moved) / np.sqrt(count))
    assert largest[True] == pytest.approx(1.0, abs=1e-12)
    assert largest[False] > 1.2


def test_rounding_stays_below_what_the_grid_allows() -> None:
    """Every operation of the recurrence, on average over the noise: half a unit in the last place
    of what it gives, and of the coefficients; all of it through the inverse. Mean sizes of normal
    numbers are 0.798 of their deviations."""
    for bands in range(2, 65):
        root, impulse = banded_root(bands), np.zeros((2000, 1))
        impulse[0] = 1
        BandedNoise(bands).follow(impulse, first=1, earlier=None)
        inverse = impulse[:, 0]
        assert abs(inverse[-1]) < 1e-15
        through, deviation = np.abs(inverse).sum(), np.linalg.norm(inverse)
        assert through < 3.2
        tails = sum(
            np.linalg.norm(np.convolve(np.pad(root[back:], (back, 0)), inverse)[:2000])
            for back in range(1, bands)
        )
        products = 2 * root[1:].sum() * deviation
        step = 0.798 * (tails + products + 1 + 2 * root[0] * deviation) / root[0]
        average = through * (2.0**-49 + step * 2.0**-53)
        assert average < 2.0**-45.4
        # Twice the error over the narrowest cell, and as much again for the other roundings.
        assert 2 * 2 * average / 2.0**-12 < 2.0**-30


def test_sums_over_rounds_have_less_noise() -> None:
    rounds = 40
    for bands in (2, 8, 64):
        sums = np.tril(np.ones((rounds, rounds))) @ np.linalg.inv(matrix(bands, rounds))
        found = np.linalg.norm(sums[-1]) / np.sqrt(rounds)
        assert noise_of_sums(bands, rounds) == pytest.approx(found)
        assert found < 0.8
    assert noise_of_sums(10, 100_000) == pytest.approx(1 / banded_root(10).sum(), rel=1e-3)


@pytest.mark.parametrize(("rounds", "every", "ratio"), [(100, 10, 0.959), (500, 10, 1.025)])
def test_the_banded_inverse_square_root_is_no_better_over_a_hundred_rounds(
    rounds: int, every: int, ratio: float
) -> None:
    """The root of the mean squared error of running sums, of both at their best: the inverse root
    with its best number of bands, its sensitivity that of all columns that one client may have."""
    running = np.tril(np.ones((rounds, rounds)))

    def error(found: Floats) -> float:
        moved = np.linalg.norm(found[:, ::every].sum(axis=1))
        return float(moved * np.linalg.norm(running @ np.linalg.inv(found)))

    inverse_root = special.binom(0.5, np.arange(rounds)) * (-1.0) ** np.arange(rounds)
    others = []
    for bands in range(2, 20):
        cut = np.where(np.arange(rounds) < bands, inverse_root, 0)
        others.append(error(np.linalg.inv(linalg.toeplitz(cut, np.zeros(rounds)))))
    assert error(matrix(every, rounds)) / min(others) == pytest.approx(ratio, abs=0.002)
