"""Dense networks of any size: matrix products and autograd, one cell at a time.

The readable form of what `SmallDenseNetwork` writes out by hand, and its oracle in the tests.
"""

import torch
from torch import Tensor

from fedaudit.networks.cell_by_cell import CellByCell
from fedaudit.networks.shape import DenseShape


class DenseNetwork(CellByCell):
    """Forward and gradient of a dense network by batched matrix products."""

    def __init__(self, shape: DenseShape) -> None:
        self.shape = shape
        self.n = shape.n

    def _apply(self, theta: Tensor, inputs: Tensor) -> Tensor:
        for layer in self.shape.layers:
            if layer.weights.start > 0:
                inputs = inputs.clamp_min(0)
            weights = torch.unflatten(theta[:, layer.weights], 1, (layer.outputs, layer.inputs))
            outputs = inputs @ weights.transpose(1, 2)
            inputs = outputs if layer.bias is None else outputs + theta[:, None, layer.bias]
        return inputs
