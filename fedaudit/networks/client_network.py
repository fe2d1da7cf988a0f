"""Networks of one set of parameters: operations, a client's network, and the loss of one record.

For convolutions on a processor one client after the other is the fastest way: stacking clients
needs grouped convolutions, which are slower than one client's own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import (
    Convolution,
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


_ACTIVATIONS: Mapping[ActivationName, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu": functional.gelu,
}


def layered_outputs(shape: NetworkShape, parameters: Parameters, rows: Tensor) -> Tensor:
    """Outputs [rows, outputs] on rows [rows, inputs]."""
    values, own = first_values(shape, rows), iter(parameters)
    for operation in shape.operations:
        has_own = isinstance(operation, Layer | Convolution)
        values = operation_outputs(operation, values, next(own) if has_own else None)
    return values


def first_values(shape: NetworkShape, rows: Tensor) -> Tensor:
    """What the first operation takes of rows [rows, inputs], which hold channels innermost."""
    if shape.image is None:
        return rows
    # A view: the layout that convolutions are fastest with.
    return torch.unflatten(rows, 1, shape.image).permute(0, 3, 1, 2)


def operation_outputs(
    operation: Operation, values: Tensor, own: tuple[Tensor, Tensor | None] | None
) -> Tensor:
    """What one operation makes of values [rows, ...]; `own`: its weights and bias, if it has any.

    Raises ValueError for a layer without its parameters.
    """
    match operation:
        case Layer() | Convolution():
            if own is None:
                raise ValueError("a layer needs its parameters")
            weights, bias = own
            if isinstance(operation, Layer):
                return functional.linear(values, weights, bias)
            return functional.conv2d(
                values, weights, bias, stride=operation.stride, padding=operation.padding
            )
        case Pool():
            return _pooled(operation, values)
        case Flattening():
            return values.flatten(1)
        case "relu" | "tanh" | "sigmoid" | "gelu":
            return _ACTIVATIONS[operation](values)
        case _:
            assert_never(operation)


def _pooled(pool: Pool, maps: Tensor) -> Tensor:
    match pool.kind:
        case "max-pooling":
            return functional.max_pool2d(maps, pool.size)
        case "average-pooling":
            return functional.avg_pool2d(maps, pool.size)
        case _:
            assert_never(pool.kind)


def parameters_at(shape: NetworkShape, theta: Tensor) -> Parameters:
    """Views of the parameters in a vector [n]."""
    return [
        (
            theta[layer.weights].view(layer.weight_sizes),
            None if layer.bias is None else theta[layer.bias],
        )
        for layer in shape.layers
    ]


def _in_turn(parameters: Parameters) -> list[Tensor]:
    """All weights, and then all biases."""
    return [
        *(weights for weights, _ in parameters),
        *(bias for _, bias in parameters if bias is not None),
    ]


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
        self._parameters = parameters_at(shape, self.theta)
        self._leaves = [leaf.requires_grad_() for leaf in _in_turn(self._parameters)]

    def load(self, theta: Tensor) -> None:
        """Takes over parameters [n]."""
        with torch.no_grad():
            self.theta.copy_(theta)

    def outputs(self, features: Tensor) -> Tensor:
        """Outputs [out, rows] on features [rows, inputs]."""
        return layered_outputs(self.shape, self._parameters, features).t()

    def gradient(self, features: Tensor, target: Tensor, loss: Loss) -> tuple[Tensor, list[Tensor]]:
        """The sum of the rows' values, and its gradient layer by layer.

        `features` [rows, inputs]; `target` [rows].
        """
        with torch.enable_grad():
            outputs = self.outputs(features)
        values, slopes = loss.values_and_slopes(outputs.detach(), target)
        return values.sum(), list(torch.autograd.grad(outputs, self._leaves, slopes))

    def descend(self, gradient: list[Tensor], step: float) -> None:
        """Moves the parameters by -step times the gradient."""
        with torch.no_grad():
            for leaf, part in zip(self._leaves, gradient, strict=True):
                leaf.sub_(part, alpha=step)

    def flat(self, gradient: list[Tensor]) -> Tensor:
        """A gradient by layers as a vector, in the order of the parameters: [n]."""
        found = torch.empty_like(self.theta)
        for place, part in zip(_in_turn(parameters_at(self.shape, found)), gradient, strict=True):
            place.copy_(part)
        return found


def record_loss(
    shape: NetworkShape, loss: Loss, theta: Tensor, features: Tensor, target: Tensor
) -> Tensor:
    """The loss of one record at parameters [n], of features [inputs] and target []: a scalar.

    In plain torch operations, so that `torch.func` can take its gradient record by record.
    """
    if isinstance(shape, LayeredShape):
        return loss.values(
            layered_outputs(shape, parameters_at(shape, theta), features[None])[0], target
        )
    # Dense layers take a vector here, which libraries round otherwise than a batch of one row.
    values, own = first_values(shape, features[None]), iter(parameters_at(shape, theta))
    for operation in shape.operations:
        has_own = isinstance(operation, Layer | Convolution)
        values = values.flatten() if isinstance(operation, Layer) else values
        values = operation_outputs(operation, values, next(own) if has_own else None)
    return loss.values(values, target)
