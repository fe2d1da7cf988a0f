"""What a layer's update says by itself: its input, and the label behind the last one.

The gradient of a dense layer for one row is the outer product of the slopes at its outputs and of
its inputs with a 1 for the bias. Under noise of the same size in every component, the nearest such
product is the likeliest; it is made of the leading singular vectors.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedaudit.networks.shape import Convolution, Flattening, Layer, LayeredShape


@dataclass(frozen=True)
class LayerInputs:
    """What a dense layer was given in each of some updates of one image."""

    values: Tensor
    """[updates, inputs]."""
    noise: Tensor
    """[updates]: about how long the values' error is beside them, by what of the update is left
    over; no more than an attacker can see."""


def invert_layer(layer: Layer, targets: Tensor) -> LayerInputs:
    """The inputs of a dense layer, from updates [updates, n] of one image each.

    The weights' slopes over the bias's, as in Phong et al. 2017, taken over all units at once. Of
    the first layer it holds for several steps on one image as well, since their slopes add up.
    """
    product = _leading_product(layer, targets)
    values = product.inputs[:, :-1] / product.inputs[:, -1:]
    noise = (product.left_over / max(1, layer.outputs - 1)).sqrt()
    return LayerInputs(values.nan_to_num(0.0, 0.0, 0.0), noise.nan_to_num(0.0, 0.0, 0.0))


def invert_first_layer(shape: LayeredShape, targets: Tensor) -> Tensor:
    """The image behind each update [updates, n], from a dense first layer: [updates, pixels].

    Raises ValueError where the first layer is no dense one.
    """
    first = shape.layers[0]
    if isinstance(first, Convolution):
        raise ValueError("the first layer is a convolution")
    images = invert_layer(first, targets).values
    if shape.image is not None and any(isinstance(one, Flattening) for one in shape.operations):
        # The layer's inputs hold channels outermost, and rows hold them innermost.
        height, width, channels = shape.image
        images = torch.unflatten(images, 1, (channels, height, width))
        images = images.permute(0, 2, 3, 1).flatten(1)
    return images


def infer_labels(shape: LayeredShape, targets: Tensor) -> Tensor:
    """The class of the one image behind each update [updates, n]: int64 [updates].

    Cross-entropy slopes down at the output of the right class alone (Zhao et al. 2020).
    """
    last = shape.layers[-1]
    assert isinstance(last, Layer)
    slopes = _leading_product(last, targets).slopes
    if last.outputs == 1:  # the logit of the second of two classes
        return (slopes[:, 0] < 0).long()
    return slopes.argmin(-1)


@dataclass(frozen=True)
class _Product:
    """The nearest outer product to each update's part in a layer."""

    slopes: Tensor
    """[updates, outputs]."""
    inputs: Tensor
    """[updates, inputs + 1]; the last one, that of the bias, is not negative."""
    left_over: Tensor
    """[updates]: the squared length of the rest over that of the product."""


def _leading_product(layer: Layer, targets: Tensor) -> _Product:
    if layer.bias is None:
        raise ValueError("a layer without bias does not tell the size of its inputs")
    weights = torch.unflatten(targets[:, layer.weights], 1, layer.weight_sizes)
    whole = torch.cat((weights, targets[:, layer.bias, None]), dim=-1)
    wide = layer.outputs <= layer.inputs
    smaller = whole @ whole.transpose(1, 2) if wide else whole.transpose(1, 2) @ whole
    found = torch.linalg.eigh(smaller)
    leading = found.eigenvectors[..., -1]
    other = torch.einsum("ujk,uj->uk" if wide else "ujk,uk->uj", whole, leading)
    slopes, inputs = (leading, other) if wide else (other, leading)
    sign = torch.where(inputs[:, -1:] < 0, -1.0, 1.0)
    lengths = found.eigenvalues.clamp_min(0)
    left_over = lengths[:, :-1].sum(-1) / lengths[:, -1]
    return _Product(slopes * sign, inputs * sign, left_over)
