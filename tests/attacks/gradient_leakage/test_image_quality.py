"""Errors and likeness of images against values that are known, and what holds of any images."""

import io
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image
from torch import Tensor
from torch.nn import functional

from fedaudit.attacks.gradient_leakage.reconstruction import minimise
from fedaudit.attacks.gradient_leakage.update_match import (
    UpdateMatch,
    baselines,
    contact_sheet,
    cross_entropy,
    peak_signal_to_noise,
    png,
    quality,
    share_interval,
    structural_similarity,
)
from fedaudit.networks.shape import network_shape
from fedaudit.networks.stacked_network import layered_outputs, parameters_at
from fedaudit.spec.models import Layers
from tests.attacks.gradient_leakage.small_images import CLASSES, CONVOLUTIONAL, SMOOTH

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
    mean_image, nearest_other = baselines(images)
    assert mean_image.mse == pytest.approx([0.3**2, 0.15**2, 0.45**2])
    assert nearest_other.mse == pytest.approx([0.01, 0.01, 0.16])


def test_intervals_are_exact() -> None:
    none, all_ = (share_interval(np.full(16, hit)) for hit in (False, True))
    assert (none.low, all_.high) == (0.0, 1.0)
    assert none.high == pytest.approx(1 - 0.025 ** (1 / 16))
    assert all_.low == pytest.approx(0.025 ** (1 / 16))


# -- pictures: a file that other software reads back, pixel by pixel ------------------------------


@pytest.mark.parametrize("size", [(5, 7), (5, 7, 3)])
def test_pixels_come_back(size: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8)
    assert np.array_equal(Image.open(io.BytesIO(png(pixels))), pixels)


def test_a_sheet_has_a_row_for_each_image_and_a_column_for_each_version() -> None:
    dark, bright = np.zeros((3, 4, 4, 1)), np.ones((3, 4, 4, 1))
    sheet = contact_sheet([dark, bright])
    side = 4 * 3 + 2
    assert sheet.shape == (3 * side, 2 * side)
    assert not sheet[: side - 2, : side - 2].any()
    assert (sheet[: side - 2, side : 2 * side - 2] == 255).all()


# -- what images' updates have in common with those that were sent, and searches side by side -----


STRIDED = {
    **CONVOLUTIONAL,
    "layers": [
        {"kind": "convolution", "filters": 3, "size": 3, "stride": 2, "padding": 1},
        {"kind": "tanh"},
        {"kind": "average-pooling", "size": 2},
        {"kind": "flatten"},
        {"kind": "dense", "units": 7},
        {"kind": "gelu"},
    ],
}


def problem(model: dict[str, Any]) -> tuple[Any, Tensor, Tensor, Tensor, Tensor]:
    """A network, its parameters, and three guesses with labels and updates that were sent."""
    shape = network_shape(Layers.model_validate(model), features=64, classes=CLASSES)
    draw = torch.Generator().manual_seed(1)
    theta = torch.randn(shape.n, generator=draw, dtype=torch.float64) / 3
    images = torch.rand(3, 64, generator=draw, dtype=torch.float64)
    labels = torch.rand(3, CLASSES, generator=draw, dtype=torch.float64).softmax(-1)
    sent = torch.randn(3, shape.n, generator=draw, dtype=torch.float64)
    return shape, theta, images, labels, sent


@pytest.mark.parametrize("model", [SMOOTH, CONVOLUTIONAL, STRIDED], ids=["dense", "conv", "stride"])
def test_products_without_gradients_are_those_of_the_gradients(model):
    shape, theta, images, labels, sent = problem(model)
    which = torch.tensor([0, 2])
    guesses = images[which].clone().requires_grad_()
    match = UpdateMatch(shape, theta, sent)
    inner, squared, lengths = match.products(guesses, labels[which], which)
    for place, update in enumerate(which.tolist()):
        at = theta.clone().requires_grad_()
        image = images[update].clone().requires_grad_()
        outputs = layered_outputs(shape, parameters_at(shape, at), image[None])
        loss = -(labels[update] * functional.log_softmax(outputs[0], -1)).sum()
        (gradient,) = torch.autograd.grad(loss, at, create_graph=True)
        by_hand = ((gradient * sent[update]).sum(), gradient.square().sum())
        for found, expected in zip((inner, squared), by_hand, strict=True):
            torch.testing.assert_close(found[place], expected, rtol=1e-10, atol=1e-12)
            (moved,) = torch.autograd.grad(found[place], guesses, retain_graph=True)
            (own,) = torch.autograd.grad(expected, image, retain_graph=True)
            torch.testing.assert_close(moved[place], own, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(lengths[place], sent[update].square().sum())


def test_two_classes_share_an_output() -> None:
    logit = torch.tensor([[0.3], [-2.0]])
    labels = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    expected = functional.binary_cross_entropy_with_logits(
        logit[:, 0], torch.tensor([1.0, 0.0]), reduction="none"
    )
    torch.testing.assert_close(cross_entropy(logit, labels), expected)


# -- L-BFGS on many functions at once: minima, and that no function disturbs another --------------


KINDS = 6


def valleys(points: Tensor, which: Tensor) -> Tensor:
    """Rosenbrock's function in four dimensions, of another steepness for each function."""
    steep = 1.0 + 20.0 * which.to(points)
    bends = (points[:, 1:] - points[:, :-1] ** 2).square().sum(-1)
    return steep * bends + (1 - points[:, :-1]).square().sum(-1)


def start() -> Tensor:
    return torch.randn(KINDS, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_every_function_comes_to_its_minimum() -> None:
    points, values = minimise(valleys, start(), iterations=120)
    # A narrow valley has a second, local minimum near (-0.78, 0.61, 0.38, 0.15).
    assert (values < 1e-12).sum() >= KINDS - 2
    points.requires_grad_()
    valleys(points, torch.arange(KINDS)).sum().backward()
    assert points.grad.abs().max() < 1e-4


def test_together_is_the_same_as_one_by_one() -> None:
    for iterations in (1, 7, 30):
        points, values = minimise(valleys, start(), iterations=iterations)
        for kind in range(0, KINDS, 2):

            def one(points: Tensor, which: Tensor, kind: int = kind) -> Tensor:
                return valleys(points, which + kind)

            alone, value = minimise(one, start()[kind : kind + 1], iterations=iterations)
            torch.testing.assert_close(alone[0], points[kind], rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(value[0], values[kind], rtol=1e-9, atol=1e-9)


def test_what_is_no_number_stays_where_it_is_and_disturbs_nobody() -> None:
    def broken(points: Tensor, which: Tensor) -> Tensor:
        return valleys(points, which) * torch.where(which == 2, torch.nan, 1.0)

    points, values = minimise(broken, start(), iterations=40)
    expected, _ = minimise(valleys, start(), iterations=40)
    others = torch.arange(KINDS) != 2
    torch.testing.assert_close(points[others], expected[others])
    assert torch.equal(points[2], start()[2])
    assert values[2].isnan()
