"""Small dense networks, all clients of all cells at once, batch axis last.

Weights differ from client to client after the first local step, so a matrix library has only
tiny products to offer; written out by hand over [cells, clients] lanes each of their terms is one
long elementwise operation. `networks.general` computes the same by autograd and is the oracle.
"""

import torch
from torch import Tensor

from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import DenseShape
from fedaudit.reproducible import fixed_order_sum


class SmallDenseNetwork:
    """Forward and gradient of a dense network by hand; see `networks.choose` for its limits."""

    def __init__(self, shape: DenseShape) -> None:
        self.shape = shape
        self.n = shape.n

    def forward(self, theta: Tensor, features: Tensor) -> Tensor:
        """Outputs [out, k, rows, cells, clients] of hypotheses theta [cells, k, n].

        `features`: [inputs, rows, cells, clients].
        """
        # Contiguous, so that the lanes stay the innermost axis of every product.
        parameters = theta.permute(2, 1, 0).contiguous()[:, :, None, :, None]
        return self._activations(parameters, features[:, None])[-1]

    def gradient(
        self, theta: Tensor, features: Tensor, target: Tensor, weight: Tensor, loss: Loss
    ) -> Tensor:
        """Gradient [n, cells, clients] of each client's loss at its own theta [n, cells, clients].

        `features` [inputs, rows, cells, clients]; `target` and `weight` [rows, cells, clients]; the
        weights of a client sum to 1, or to 0 where it has no rows in the batch.
        """
        activations = self._activations(theta[:, None], features)
        values, slopes = loss.values_and_slopes(activations[-1], target)
        factor = loss.client_slope(fixed_order_sum(values * weight, 0))
        slope = slopes * (weight * factor)
        parts: list[Tensor] = []
        for layer, inputs in reversed(list(zip(self.shape.layers, activations[:-1], strict=True))):
            products = slope[:, None] * inputs[None]
            gradient = [fixed_order_sum(products, 2).flatten(0, 1)]
            if layer.bias is not None:
                gradient.append(fixed_order_sum(slope, 1))
            parts = gradient + parts
            if layer.weights.start > 0:
                weights = torch.unflatten(theta[layer.weights], 0, (layer.outputs, layer.inputs))
                back = fixed_order_sum(weights[:, :, None] * slope[:, None], 0)
                slope = back * (inputs > 0)
        return torch.cat(parts)

    def _activations(self, parameters: Tensor, features: Tensor) -> list[Tensor]:
        """The inputs of every layer, then the outputs; parameters [n, ...] broadcast to them."""
        activations = [features]
        for layer in self.shape.layers:
            inputs = activations[-1]
            if layer.weights.start > 0:
                inputs = inputs.clamp_min(0)
                activations[-1] = inputs
            weights = torch.unflatten(parameters[layer.weights], 0, (layer.outputs, layer.inputs))
            outputs = weights[:, 0] * inputs[0]
            if layer.bias is not None:
                outputs += parameters[layer.bias]
            for position in range(1, layer.inputs):
                # Not `addcmul`, which may round product and sum once, as a processor likes.
                outputs += weights[:, position] * inputs[position]
            activations.append(outputs)
        return activations
