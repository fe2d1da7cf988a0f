"""The public grid: powers of two, fine against the noise, from public numbers alone."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedaudit.privacy.count_release import IntegerDraws, drawn_integers
from fedaudit.privacy.noise.adaptive_clipping import FINEST, rounded, spacing_of
from fedaudit.privacy.noise.gaussian import LocalGaussian, grid_spacing, round_to_grid
from fedaudit.randomness import CounterSource, EntropySource, Purpose
from tests.privacy.layered_noise import column, layer_sanitiser


@given(st.floats(1e-30, 1e30))
def test_a_cell_is_a_power_of_two_and_fine_against_the_noise(deviation: float) -> None:
    spacing = spacing_of(deviation)
    assert math.frexp(spacing)[0] == 0.5
    assert deviation * 2.0**-12 < spacing <= deviation * 2.0**-11
    assert grid_spacing(column(deviation)).item() == spacing


def test_without_noise_nothing_is_rounded_that_a_float32_can_hold() -> None:
    assert np.float64(np.nextafter(np.float32(0), np.float32(1))) == FINEST
    assert grid_spacing(column(0.0)).item() == FINEST == spacing_of(0.0) == spacing_of(1e-60)
    values = torch.tensor([1.1754944e-38, 3.3e38, -0.1, 1e-45], dtype=torch.float32)
    kept = round_to_grid(values.double()[None], grid_spacing(column(0.0)))
    assert torch.equal(kept[0].float(), values)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3))
def test_values_become_the_nearest_multiple(value: float, deviation: float) -> None:
    spacing = spacing_of(deviation)
    found = round_to_grid(column(value), column(spacing)).item()
    assert found == rounded(value, deviation=deviation)
    assert found / spacing == round(found / spacing)
    assert abs(found - value) <= spacing / 2


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_stays_so(broken: float) -> None:
    assert not math.isfinite(round_to_grid(column(broken), column(0.5)).item())


def test_an_adaptive_radius_does_not_move_the_grid() -> None:
    """Which would disclose the norm of the update to within a factor of two."""
    sanitise = layer_sanitiser((3,), nu=1.5, floor=0.25, per_layer=False)
    assert sanitise.spacings[0].item() == spacing_of(0.25 * 0.5 * 2)
    noise = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 50, 3)))
    start = torch.zeros(1, 50, 3)
    for length in (0.0, 1.0, 100.0):
        uploads, _ = sanitise(start, start + length, noise)
        cells = uploads.double() / sanitise.spacings[0]
        assert torch.equal(cells, cells.round())


def test_uploads_lie_on_the_grid_however_large_the_parameters() -> None:
    gaussian = LocalGaussian(clip=column(0.5), noise_multiplier=column(8.0))
    noise = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 50, 3)))
    for start in (torch.zeros(1, 50, 3), torch.full((1, 50, 3), 1e4 / 3)):
        uploads = gaussian(start, start + 0.1, noise)
        cells = uploads.double() / spacing_of(4.0)
        assert torch.equal(cells, cells.round())


# -- exact integer noise against the probabilities of its distributions ---------------------------


_DRAWS = 6000
_ALARM = 1e-3


def drawn(seed: int, scale: Fraction, *, gaussian: bool) -> np.ndarray:
    draws = IntegerDraws(CounterSource(seed), purpose=Purpose.COUNT_NOISE, round_=0)
    return drawn_integers(draws, shape=(_DRAWS,), scale=scale, gaussian=gaussian)


def fits(found: np.ndarray, weight: "np.ufunc | object") -> float:
    """The p-value of a chi-squared test, tails joined where fewer than ten are expected."""
    reach = np.arange(-2000, 2001)
    chances = weight(reach)  # type: ignore[operator]
    chances = chances / chances.sum()
    inner = reach[chances * _DRAWS >= 10]
    low, high = inner.min(), inner.max()
    clipped = np.clip(found, low, high)
    expected = np.array([chances[reach == one].sum() for one in inner])
    expected[0] += chances[reach < low].sum()
    expected[-1] += chances[reach > high].sum()
    counted = np.array([(clipped == one).sum() for one in inner])
    return float(chisquare(counted, expected * _DRAWS).pvalue)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(3) / Fraction(0.1)])
def test_discrete_laplace_noise_has_its_distribution(scale: Fraction) -> None:
    found = drawn(5, scale, gaussian=False)
    assert fits(found, lambda x: np.exp(-np.abs(x) / float(scale))) > _ALARM


@pytest.mark.parametrize("deviation", [0.4, 3.7, 12.0])
def test_discrete_gaussian_noise_has_its_distribution(deviation: float) -> None:
    found = drawn(6, Fraction(deviation) ** 2, gaussian=True)
    assert fits(found, lambda x: np.exp(-(x**2) / (2 * deviation**2))) > _ALARM


def test_a_sampler_of_another_scale_is_caught() -> None:
    found = drawn(7, Fraction(2), gaussian=False)
    assert fits(found, lambda x: np.exp(-np.abs(x) / 2.2)) < _ALARM


def test_noise_repeats_from_a_seed_and_never_from_entropy() -> None:
    assert (drawn(8, Fraction(9), gaussian=False) == drawn(8, Fraction(9), gaussian=False)).all()
    secret = [
        drawn_integers(
            IntegerDraws(EntropySource(), purpose=Purpose.COUNT_NOISE, round_=0),
            shape=(64,),
            scale=Fraction(50),
            gaussian=False,
        )
        for _ in range(2)
    ]
    assert (secret[0] != secret[1]).any()


def test_whole_numbers_below_a_bound_are_equally_likely() -> None:
    draws = IntegerDraws(CounterSource(9), purpose=Purpose.COUNT_NOISE, round_=0)
    counted = np.bincount([draws.below(5) for _ in range(5000)], minlength=5)
    assert chisquare(counted).pvalue > _ALARM
    assert draws.below(1) == 0
    assert 0 <= draws.below(1 << 64) < 1 << 64 <= 3 * (1 << 64)
