"""Dense networks of any size: matrix products and autograd, one cell at a time.

The readable form of what `networks.tiny` writes out by hand, and its oracle in the tests. A cell
is computed alone, so its numbers cannot depend on the stack; clients stay on a tensor axis.
"""

import torch
from torch import Tensor

from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import DenseShape


class DenseNetwork:
    """Forward and gradient of a dense network by batched matrix products."""

    def __init__(self, shape: DenseShape) -> None:
        self.shape = shape
        self.n = shape.n

    def forward(self, theta: Tensor, features: Tensor) -> Tensor:
        """Outputs [out, k, rows, cells, clients] of hypotheses theta [cells, k, n].

        `features`: [inputs, rows, cells, clients].
        """
        rows, clients = features.shape[1], features.shape[3]
        cells = []
        for cell in range(theta.shape[0]):
            inputs = features[:, :, cell].permute(1, 2, 0).flatten(0, 1)
            outputs = self._apply(theta[cell], inputs.expand(theta.shape[1], -1, -1))
            cells.append(torch.unflatten(outputs.permute(2, 0, 1), 2, (rows, clients)))
        return torch.stack(cells, dim=3)

    def gradient(
        self, theta: Tensor, features: Tensor, target: Tensor, weight: Tensor, loss: Loss
    ) -> Tensor:
        """Gradient [n, cells, clients] of each client's loss at its own theta [n, cells, clients].

        `features` [inputs, rows, cells, clients]; `target` and `weight` [rows, cells, clients]; the
        weights of a client sum to 1, or to 0 where it has no rows in the batch.
        """
        cells = []
        for cell in range(theta.shape[1]):
            own = theta[:, cell].t().contiguous().requires_grad_()
            with torch.enable_grad():
                outputs = self._apply(own, features[:, :, cell].permute(2, 1, 0)).permute(2, 1, 0)
                values = loss.values(outputs, target[:, cell])
                means = (values * weight[:, cell]).sum(0)
                # Clients share no parameter, so one pass gives every client its own gradient.
                (slope,) = torch.autograd.grad(means.sum(), own)
            cells.append(slope * loss.client_slope(means.detach())[:, None])
        return torch.stack(cells).permute(2, 0, 1)

    def _apply(self, theta: Tensor, inputs: Tensor) -> Tensor:
        """Outputs [batch, rows, out] of parameters [batch, n] on inputs [batch, rows, in]."""
        for layer in self.shape.layers:
            if layer.weights.start > 0:
                inputs = inputs.clamp_min(0)
            weights = torch.unflatten(theta[:, layer.weights], 1, (layer.outputs, layer.inputs))
            outputs = inputs @ weights.transpose(1, 2)
            inputs = outputs if layer.bias is None else outputs + theta[:, None, layer.bias]
        return inputs
