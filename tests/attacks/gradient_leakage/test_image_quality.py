"""Errors and likeness of images against values that are known, and what holds of any images."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedaudit.attacks.gradient_leakage.update_match import (
    Baselines,
    peak_signal_to_noise,
    quality,
    share_interval,
    structural_similarity,
)

PIXELS = st.floats(0, 1, width=32)
IMAGES = st.integers(3, 14).flatmap(
    lambda side: arrays(np.float64, (2, side, side, 1), elements=PIXELS)
)


def test_an_error_of_a_tenth_everywhere_is_20_decibels() -> None:
    flat = np.full((8, 8, 1), 0.4)
    error = quality(flat[None], flat[None] + 0.1).mse[0]
    assert error == pytest.approx(0.01)
    assert peak_signal_to_noise(error) == pytest.approx(20.0)
    assert peak_signal_to_noise(0.0) is None


def test_flat_images_are_alike_as_their_brightness_is() -> None:
    """With no variance the second factor is 1, and the first is a formula of the two levels."""
    for low, high in ((0.0, 1.0), (0.2, 0.8), (0.5, 0.5)):
        expected = (2 * low * high + 1e-4) / (low**2 + high**2 + 1e-4)
        found = structural_similarity(np.full((16, 16, 1), low), np.full((16, 16, 1), high))
        assert found == pytest.approx(expected)


def test_one_window_by_hand() -> None:
    """Images of the size of a window have one: weighted means, variances and a covariance."""
    first, second = np.random.default_rng(1).random((2, 11, 11))
    ramp = np.exp(-0.5 * (np.arange(-5, 6) / 1.5) ** 2)
    weights = np.outer(ramp, ramp) / ramp.sum() ** 2
    means = [(weights * one).sum() for one in (first, second)]
    spread = [(weights * one**2).sum() - (weights * one).sum() ** 2 for one in (first, second)]
    shared = (weights * (first - means[0]) * (second - means[1])).sum()
    expected = (
        (2 * means[0] * means[1] + 1e-4)
        * (2 * shared + 9e-4)
        / ((means[0] ** 2 + means[1] ** 2 + 1e-4) * (spread[0] + spread[1] + 9e-4))
    )
    found = structural_similarity(first[..., None], second[..., None])
    assert found == pytest.approx(expected)


@given(IMAGES)
def test_likeness_is_symmetric_bounded_and_1_of_an_image_with_itself(pair):
    first, second = pair
    likeness = structural_similarity(first, second)
    assert likeness == pytest.approx(structural_similarity(second, first))
    assert -1 - 1e-9 <= likeness <= 1 + 1e-9
    assert structural_similarity(first, first) == pytest.approx(1.0)


def test_baselines_leave_the_image_itself_out() -> None:
    images = np.stack([np.full((4, 4, 1), level) for level in (0.0, 0.1, 0.5)])
    baselines = Baselines(images)
    assert baselines.mean_image.mse == pytest.approx([0.3**2, 0.15**2, 0.45**2])
    assert baselines.nearest_other.mse == pytest.approx([0.01, 0.01, 0.16])
    assert baselines.errors == pytest.approx([0.01, 0.01, 0.16])


def test_intervals_are_exact() -> None:
    none, all_ = (share_interval(np.full(16, hit)) for hit in (False, True))
    assert (none.low, all_.high) == (0.0, 1.0)
    assert none.high == pytest.approx(1 - 0.025 ** (1 / 16))
    assert all_.low == pytest.approx(0.025 ** (1 / 16))
