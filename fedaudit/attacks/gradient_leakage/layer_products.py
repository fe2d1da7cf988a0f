"""Inner products of a layer's gradient with a target, and its squared length."""

from typing import assert_never

import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.attacks.gradient_leakage.traced_network import TracedLayer
from fedaudit.networks.shape import Convolution, Layer


def layer_products(
    traced: TracedLayer, slopes: Tensor, targets: Tensor, *, together: int
) -> tuple[Tensor, Tensor]:
    """The inner product with each guess's target, and the squared length: each [guesses].

    `slopes`: the loss's derivatives by the layer's outputs, `together` rows for each guess;
    `targets` [guesses, n], of which the layer has its part.
    """
    layer = traced.layer
    sizes = (len(targets), *layer.weight_sizes)
    weights = targets[:, layer.weights].view(sizes).flatten(2)
    bias = None if layer.bias is None else targets[:, layer.bias]
    inputs = torch.unflatten(traced.inputs, 0, (-1, together))
    slopes = torch.unflatten(slopes, 0, (-1, together))
    match layer:
        case Layer():
            return _dense_products(inputs, slopes, weights, bias)
        case Convolution():
            return _convolution_products(layer, inputs, slopes, weights, bias)
        case _:
            assert_never(layer)


def _dense_products(
    inputs: Tensor, slopes: Tensor, weights: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Of the sum over rows of slope times input: [guesses, rows, inputs] and [.., outputs]."""
    through = inputs @ weights.transpose(1, 2)
    overlap = inputs @ inputs.transpose(1, 2)
    if bias is not None:
        through = through + bias[:, None]
        overlap = overlap + 1
    inner = (slopes * through).sum((1, 2))
    return inner, ((slopes @ slopes.transpose(1, 2)) * overlap).sum((1, 2))


def _convolution_products(
    layer: Convolution, inputs: Tensor, slopes: Tensor, weights: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Here the gradient is written out: it is small beside the maps."""
    patches = functional.unfold(
        inputs.flatten(0, 1), layer.size, padding=layer.padding, stride=layer.stride
    )
    patches = torch.unflatten(patches, 0, inputs.shape[:2]).transpose(1, 2).flatten(2)
    slopes = slopes.flatten(3).transpose(1, 2).flatten(2)
    gradient = slopes @ patches.transpose(1, 2)
    inner, squared = (gradient * weights).sum((1, 2)), gradient.square().sum((1, 2))
    if bias is None:
        return inner, squared
    of_bias = slopes.sum(-1)
    return inner + (of_bias * bias).sum(-1), squared + of_bias.square().sum(-1)
