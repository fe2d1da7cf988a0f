"""The loss of one record as a function of flat parameters, for any network.

Written in plain torch operations, so that `torch.func` can take its gradient record by record.
"""

from typing import assert_never

import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.networks.layered import layered_outputs, parameters_at
from fedaudit.networks.layered_shape import LayeredShape
from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import ConvolutionalShape, DenseShape, NetworkShape


class RecordLoss:
    """A row's value under a loss."""

    def __init__(self, shape: NetworkShape, loss: Loss) -> None:
        self._shape = shape
        self._loss = loss

    def __call__(self, theta: Tensor, features: Tensor, target: Tensor) -> Tensor:
        """A scalar, at parameters [n], of features [inputs] and target []."""
        match self._shape:
            case LayeredShape():
                own = parameters_at(self._shape, theta)
                return self._loss.values(
                    layered_outputs(self._shape, own, features[None])[0], target
                )
            case DenseShape():
                values, layers = features, self._shape.layers
            case ConvolutionalShape():
                values = self._convolved(self._shape, theta, features)
                layers = self._shape.dense
            case _:
                assert_never(self._shape)
        for position, layer in enumerate(layers):
            weights = theta[layer.weights].view(layer.outputs, layer.inputs)
            bias = None if layer.bias is None else theta[layer.bias]
            values = functional.linear(values.relu() if position else values, weights, bias)
        return self._loss.values(values, target)

    @staticmethod
    def _convolved(shape: ConvolutionalShape, theta: Tensor, features: Tensor) -> Tensor:
        """What the convolutions and the pool make of one image [pixels]: flat."""
        # Rows hold channels innermost.
        maps = torch.unflatten(features, 0, shape.image).permute(2, 0, 1)[None]
        for layer in shape.convolutions:
            weights = theta[layer.weights].view(layer.outputs, layer.inputs, layer.size, layer.size)
            maps = functional.conv2d(maps, weights, theta[layer.bias]).relu()
        return functional.max_pool2d(maps, 2).flatten()
