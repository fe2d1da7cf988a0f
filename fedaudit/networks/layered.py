"""Networks of named layers, in torch operations that `torch.func` can map and differentiate."""

from collections.abc import Sequence
from typing import assert_never

import torch
from torch import Tensor
from torch.nn import functional

from fedaudit.networks.cell_by_cell import CellByCell
from fedaudit.networks.layered_shape import Flattening, LayeredShape, Operation, Pool
from fedaudit.networks.parameter_layers import Convolution, Layer
from fedaudit.spec.model.layers import ActivationName

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


class LayeredNetwork(CellByCell):
    """Forward and gradient for clients side by side."""

    def __init__(self, shape: LayeredShape) -> None:
        self.shape = shape
        self.n = shape.n

    def _apply(self, theta: Tensor, inputs: Tensor) -> Tensor:
        outputs: Tensor = torch.func.vmap(self._one)(theta, inputs)
        return outputs

    def _one(self, theta: Tensor, rows: Tensor) -> Tensor:
        return layered_outputs(self.shape, parameters_at(self.shape, theta), rows)


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
