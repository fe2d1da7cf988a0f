"""What images' updates have in common with those that were sent, and searches side by side."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.attacks.gradient_leakage.update_match import (
    OneStepMatch,
    UnrolledMatch,
    layered_view,
    mean_cross_entropy,
    sent_updates,
    squared_distance,
)
from fedaudit.networks.shape import network_shape
from fedaudit.networks.stacked_network import ClientNetwork, layered_outputs, parameters_at
from fedaudit.spec.models import CnnFemnist, Layers, Mlp, ModelSpec
from tests.attacks.gradient_leakage.small_images import CLASSES, CONVOLUTIONAL, SMOOTH

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


def problem(model: dict[str, Any], *, together: int) -> tuple[Any, Tensor, Tensor, Tensor, Tensor]:
    """A network, its parameters, and three guesses with labels and updates that were sent."""
    shape = layered_view(network_shape(Layers.model_validate(model), features=64, classes=CLASSES))
    draw = torch.Generator().manual_seed(1)
    theta = torch.randn(shape.n, generator=draw, dtype=torch.float64) / 3
    images = torch.rand(3, together, 64, generator=draw, dtype=torch.float64)
    labels = torch.rand(3, together, CLASSES, generator=draw, dtype=torch.float64).softmax(-1)
    sent = torch.randn(3, shape.n, generator=draw, dtype=torch.float64)
    return shape, theta, images, labels, sent


@pytest.mark.parametrize("model", [SMOOTH, CONVOLUTIONAL, STRIDED], ids=["dense", "conv", "stride"])
@pytest.mark.parametrize("together", [1, 3])
@pytest.mark.parametrize("by_noise", [False, True])
def test_products_without_gradients_are_those_of_the_gradients(model, together, by_noise):
    shape, theta, images, labels, whole = problem(model, together=together)
    sent = sent_updates(shape, whole, by_noise=by_noise)
    which = torch.tensor([0, 2])
    found = []
    for match in (
        OneStepMatch(shape, theta, sent),
        UnrolledMatch(shape, theta, sent, local_steps=1, step_size=0.1),
    ):
        guesses = images[which].clone().requires_grad_()
        products = match.products(guesses, labels[which], which)
        (slopes,) = torch.autograd.grad(squared_distance(products).sum(), guesses)
        found.append((products.inner, products.squared, products.target_squared, slopes))
    for first, second in zip(*found, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-10, atol=1e-12)


def test_updates_of_several_steps_are_those_of_plain_gradient_descent() -> None:
    shape, theta, images, labels, whole = problem(SMOOTH, together=2)
    match = UnrolledMatch(
        shape, theta, sent_updates(shape, whole, by_noise=False), local_steps=4, step_size=0.3
    )
    moved = theta[None].repeat(3, 1)
    for guess in range(3):
        for _ in range(4):
            own = moved[guess].clone().requires_grad_()
            outputs = layered_outputs(shape, parameters_at(shape, own), images[guess])
            loss = -(labels[guess] * functional.log_softmax(outputs, -1)).sum(-1).mean()
            moved[guess] -= 0.3 * torch.autograd.grad(loss, own)[0]
    torch.testing.assert_close(match.updates(images, labels), (theta - moved) / 0.3)


@pytest.mark.parametrize(
    ("model", "features"),
    [
        (Mlp.model_validate({"kind": "mlp", "hidden": [9, 6]}), 20),
        (CnnFemnist.model_validate({"kind": "cnn-femnist"}), 784),
    ],
    ids=["mlp", "cnn-femnist"],
)
def test_a_network_seen_as_layers_computes_the_same(model: ModelSpec, features: int) -> None:
    shape = network_shape(model, features=features, classes=4)
    view = layered_view(shape)
    assert view.n == shape.n
    random = np.random.default_rng(1)
    theta = torch.from_numpy(random.normal(size=shape.n).astype(np.float32) / 20)
    rows = torch.from_numpy(random.random((2, features)).astype(np.float32))
    network = ClientNetwork(shape, torch.device("cpu"))
    network.load(theta)
    own = layered_outputs(view, parameters_at(view, theta), rows)
    torch.testing.assert_close(own, network.outputs(rows).t(), rtol=1e-4, atol=1e-5)


def test_two_classes_share_an_output() -> None:
    logit = torch.tensor([[[0.3]], [[-2.0]]])
    labels = torch.tensor([[[0.0, 1.0]], [[1.0, 0.0]]])
    expected = functional.binary_cross_entropy_with_logits(
        logit[:, 0, 0], torch.tensor([1.0, 0.0]), reduction="none"
    )
    torch.testing.assert_close(mean_cross_entropy(logit, labels), expected)
