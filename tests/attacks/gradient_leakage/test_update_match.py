"""What images' updates have in common with those that were sent, and searches side by side."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.attacks.gradient_leakage.update_match import UpdateMatch, cross_entropy, layered_view
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


def problem(model: dict[str, Any]) -> tuple[Any, Tensor, Tensor, Tensor, Tensor]:
    """A network, its parameters, and three guesses with labels and updates that were sent."""
    shape = layered_view(network_shape(Layers.model_validate(model), features=64, classes=CLASSES))
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
    products = UpdateMatch(shape, theta, sent).products(guesses, labels[which], which)
    for place, update in enumerate(which.tolist()):
        at = theta.clone().requires_grad_()
        image = images[update].clone().requires_grad_()
        outputs = layered_outputs(shape, parameters_at(shape, at), image[None])
        loss = -(labels[update] * functional.log_softmax(outputs[0], -1)).sum()
        (gradient,) = torch.autograd.grad(loss, at, create_graph=True)
        by_hand = ((gradient * sent[update]).sum(), gradient.square().sum())
        for found, expected in zip((products.inner, products.squared), by_hand, strict=True):
            torch.testing.assert_close(found[place], expected, rtol=1e-10, atol=1e-12)
            (moved,) = torch.autograd.grad(found[place], guesses, retain_graph=True)
            (own,) = torch.autograd.grad(expected, image, retain_graph=True)
            torch.testing.assert_close(moved[place], own, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(products.target_squared[place], sent[update].square().sum())


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
    logit = torch.tensor([[0.3], [-2.0]])
    labels = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    expected = functional.binary_cross_entropy_with_logits(
        logit[:, 0], torch.tensor([1.0, 0.0]), reduction="none"
    )
    torch.testing.assert_close(cross_entropy(logit, labels), expected)
