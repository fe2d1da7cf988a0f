"""The public grid: powers of two, fine against the noise, from public numbers alone."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.privacy.noise.adaptive_clipping import FINEST, rounded, spacing_of
from fedaudit.privacy.noise.gaussian import LocalGaussian, grid_spacing, round_to_grid
from fedaudit.privacy.noise.laplace import Sanitiser
from tests.privacy.layered_noise import column


def test_the_finest_grid_is_what_a_float32_can_just_be() -> None:
    assert np.float64(np.nextafter(np.float32(0), np.float32(1))) == FINEST
    assert spacing_of(0.0) == spacing_of(1e-300) == FINEST


@given(st.floats(1e-30, 1e30))
def test_a_cell_is_a_power_of_two_and_fine_against_the_noise(deviation: float) -> None:
    spacing = spacing_of(deviation)
    assert math.frexp(spacing)[0] == 0.5
    assert deviation * 2.0**-12 < spacing <= deviation * 2.0**-11
    assert grid_spacing(column(deviation)).item() == spacing


def test_without_noise_nothing_is_rounded_that_a_float32_can_hold() -> None:
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
    sanitise = Sanitiser(
        n=3, noise_scale=column(0.5), fixed_radius=None, radius_floor=column(0.25), clip=None
    )
    assert sanitise.spacing.item() == spacing_of(0.25 * 0.5 * 2)
    noise = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 50, 3)))
    start = torch.zeros(1, 50, 3)
    for length in (0.0, 1.0, 100.0):
        uploads, _ = sanitise(start, start + length, noise)
        cells = uploads.double() / sanitise.spacing
        assert torch.equal(cells, cells.round())


def test_uploads_lie_on_the_grid_however_large_the_parameters() -> None:
    gaussian = LocalGaussian(clip=column(0.5), noise_multiplier=column(8.0))
    noise = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 50, 3)))
    for start in (torch.zeros(1, 50, 3), torch.full((1, 50, 3), 1e4 / 3)):
        uploads, _ = gaussian(start, start + 0.1, noise)
        cells = uploads.double() / spacing_of(4.0)
        assert torch.equal(cells, cells.round())
