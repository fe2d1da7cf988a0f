"""Networks of one set of parameters: operations, a client's network, and the loss of one record.

For convolutions on a processor one client after the other is the fastest way: stacking clients
needs grouped convolutions, which are slower than one client's own.
"""

from collections.abc import Sequence
from typing import assert_never

import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import (
    Convolution,
    ConvolutionalShape,
    DenseShape,
    Flattening,
    Layer,
    LayeredShape,
    NetworkShape,
    Operation,
    Pool,
)
from fedaudit.spec.models import ActivationName

Parameters = Sequence[tuple[Tensor, Tensor | None]]
"""Weights and bias of each layer that has them, in order."""


def layered_outputs(shape: LayeredShape, parameters: Parameters, rows: Tensor) -> Tensor:
    """Outputs [rows, outputs] on rows [rows, inputs]."""
    values, own = first_values(shape, rows), iter(parameters)
    for operation in shape.operations:
        has_own = isinstance(operation, Layer | Convolution)
        values = operation_outputs(operation, values, next(own) if has_own else None)
    return values


def first_values(shape: LayeredShape, rows: Tensor) -> Tensor:
    """What the first operation takes of rows [rows, inputs], which hold channels innermost."""
    if shape.image is None:
        return rows
    return torch.unflatten(rows, 1, shape.image).permute(0, 3, 1, 2)


def operation_outputs(
    operation: Operation, values: Tensor, own: tuple[Tensor, Tensor | None] | None
) -> Tensor:
    """What one operation makes of values [rows, ...]; `own`: its weights and bias, if it has any.

    Raises ValueError for a layer without its parameters.
    """
    match operation:
        case Layer():
            return functional.linear(values, *_given(own))
        case Convolution():
            weights, bias = _given(own)
            return functional.conv2d(
                values, weights, bias, stride=operation.stride, padding=operation.padding
            )
        case Pool():
            return _pooled(operation, values)
        case Flattening():
            return values.flatten(1)
        case "relu" | "tanh" | "sigmoid" | "gelu":
            return _activated(operation, values)
        case _:
            assert_never(operation)


def _given(own: tuple[Tensor, Tensor | None] | None) -> tuple[Tensor, Tensor | None]:
    if own is None:
        raise ValueError("a layer needs its parameters")
    return own


def parameters_at(shape: LayeredShape, theta: Tensor) -> Parameters:
    """Views of the parameters in a vector [n]."""
    return [
        (
            theta[layer.weights].view(layer.weight_sizes),
            None if layer.bias is None else theta[layer.bias],
        )
        for layer in shape.layers
    ]


def _pooled(pool: Pool, maps: Tensor) -> Tensor:
    match pool.kind:
        case "max-pooling":
            return functional.max_pool2d(maps, pool.size)
        case "average-pooling":
            return functional.avg_pool2d(maps, pool.size)
        case _:
            assert_never(pool.kind)


def _activated(name: ActivationName, values: Tensor) -> Tensor:
    match name:
        case "relu":
            return values.relu()
        case "tanh":
            return values.tanh()
        case "sigmoid":
            return values.sigmoid()
        case "gelu":
            return functional.gelu(values)
        case _:
            assert_never(name)


_MAX_ACTIVATIONS = 1 << 22  # of all rows that are computed at once: 16 MiB in single precision


class ClientNetwork:
    """Outputs and gradients at one vector of parameters.

    The vector is the network's own copy: libraries may round by where a vector lies in memory, and
    a hypothesis lies elsewhere after a run was resumed.
    """

    def __init__(self, shape: NetworkShape, device: torch.device) -> None:
        self.shape = shape
        self.rows_at_once = max(1, _MAX_ACTIVATIONS // shape.activations)
        """How many rows to compute at once, for temporaries to stay small."""
        self.theta = torch.zeros(shape.n, device=device)
        """float32 [n]: the present parameters."""
        # Leaves of their own, each on its part of the vector: slices that autograd had to undo
        # would cost a vector of zeros for each layer.
        self._weights = [self._leaf(layer.weights, layer.weight_sizes) for layer in shape.layers]
        self._biases = [
            None if layer.bias is None else self._leaf(layer.bias, (layer.outputs,))
            for layer in shape.layers
        ]

    def load(self, theta: Tensor) -> None:
        """Takes over parameters [n]."""
        with torch.no_grad():
            self.theta.copy_(theta)

    def outputs(self, features: Tensor) -> Tensor:
        """Outputs [out, rows] on features [rows, inputs]."""
        parameters = list(zip(self._weights, self._biases, strict=True))
        match self.shape:
            case LayeredShape():
                return layered_outputs(self.shape, parameters, features).t()
            case DenseShape():
                values = features
            case ConvolutionalShape():
                values = self._convolve(self.shape, features)
                parameters = parameters[len(self.shape.convolutions) :]
            case _:
                assert_never(self.shape)
        for position, (weights, bias) in enumerate(parameters):
            inputs = functional.relu(values) if position else values
            values = functional.linear(inputs, weights, bias)
        return values.t()

    def gradient(self, features: Tensor, target: Tensor, loss: Loss) -> tuple[Tensor, list[Tensor]]:
        """The sum of the rows' values, and its gradient layer by layer.

        `features` [rows, inputs]; `target` [rows].
        """
        leaves = [*self._weights, *(bias for bias in self._biases if bias is not None)]
        with torch.enable_grad():
            outputs = self.outputs(features)
        values, slopes = loss.values_and_slopes(outputs.detach(), target)
        return values.sum(), list(torch.autograd.grad(outputs, leaves, slopes))

    def descend(self, gradient: list[Tensor], step: float) -> None:
        """Moves the parameters by -step times the gradient."""
        leaves = [*self._weights, *(bias for bias in self._biases if bias is not None)]
        with torch.no_grad():
            for leaf, part in zip(leaves, gradient, strict=True):
                leaf.sub_(part, alpha=step)

    def _convolve(self, shape: ConvolutionalShape, features: Tensor) -> Tensor:
        """What the convolutions and the pool make of images [rows, pixels]: [rows, ...]."""
        # Rows hold channels innermost, which is the layout that convolutions are fastest with.
        maps = torch.unflatten(features, 1, shape.image).permute(0, 3, 1, 2)
        last = len(shape.convolutions) - 1
        for position in range(last + 1):
            maps = functional.conv2d(maps, self._weights[position], self._biases[position])
            if position == last:
                # The pool first: the maximum is the same, and leaves a quarter for ReLU.
                maps = functional.max_pool2d(maps, 2)
            maps = functional.relu_(maps)
        return maps.flatten(1)

    def _leaf(self, place: slice, sizes: tuple[int, ...]) -> Tensor:
        return self.theta[place].view(sizes).requires_grad_()


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
