"""Networks of many clients and cells at once.

After the first local step weights differ from client to client, so a matrix library has only tiny
products to offer: small dense networks are written out by hand over [cells, clients] lanes, where
each term is one long elementwise operation. Larger ones are computed one cell at a time by matrix
products and autograd, so that a cell's numbers cannot depend on the stack.
"""

from typing import assert_never

import torch
from torch import Tensor

from fedaudit.networks.client_network import layered_outputs, parameters_at
from fedaudit.networks.losses import Loss
from fedaudit.networks.shape import DenseShape, LayeredShape
from fedaudit.reproducible import fixed_order_sum


class SmallDenseNetwork:
    """Forward and gradient of a dense network by hand; see `choose_network` for its limits."""

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


_LANES, _LANES_OF_DEVICE = 8, 32
"""Clients that a batched network computes at once on the host and elsewhere, neither more nor
fewer: a library adds up in an order that depends on how many products there are, and a client's
numbers may not depend on who is computed beside it."""


def _lane_blocks(values: Tensor, *, lanes: int) -> list[Tensor]:
    """Blocks of as many clients along the axis `lanes`, the last one filled up with zeros."""
    size = _LANES if values.device.type == "cpu" else _LANES_OF_DEVICE
    missing = -values.shape[lanes] % size
    if missing:
        shape = list(values.shape)
        shape[lanes] = missing
        values = torch.cat((values, values.new_zeros(shape)), dim=lanes)
    return list(torch.split(values, size, dim=lanes))


class BatchedNetwork:
    """A network of any size by matrix products and autograd, one cell at a time."""

    rows_at_once: int | None = None
    """How many rows of each client to compute at once, for temporaries to stay small; None for all
    of them."""

    def __init__(self, shape: DenseShape | LayeredShape) -> None:
        self.shape = shape
        self.n = shape.n

    def forward(self, theta: Tensor, features: Tensor) -> Tensor:
        """As `SmallDenseNetwork.forward`."""
        clients = features.shape[3]
        cells = []
        for cell in range(theta.shape[0]):
            blocks = [
                self._forward(theta[cell], block[:, :, cell])
                for block in _lane_blocks(features, lanes=3)
            ]
            cells.append(torch.cat(blocks, dim=-1)[..., :clients])
        return torch.stack(cells, dim=3)

    def _forward(self, theta: Tensor, features: Tensor) -> Tensor:
        """Outputs [out, k, rows, lanes] of a cell's hypotheses [k, n] on features [inputs, rows,
        lanes]."""
        pieces = []
        for piece in self._pieces(features.shape[1]):
            inputs = features[:, piece].permute(1, 2, 0).flatten(0, 1)
            outputs = self._apply(theta, inputs.expand(theta.shape[0], -1, -1))
            pieces.append(torch.unflatten(outputs.permute(2, 0, 1), 2, (-1, features.shape[2])))
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=2)

    def gradient(
        self, theta: Tensor, features: Tensor, target: Tensor, weight: Tensor, loss: Loss
    ) -> Tensor:
        """As `SmallDenseNetwork.gradient`."""
        clients = theta.shape[2]
        cells = []
        for cell in range(theta.shape[1]):
            blocks = zip(
                _lane_blocks(theta[:, cell].t(), lanes=0),
                _lane_blocks(features[:, :, cell], lanes=2),
                _lane_blocks(target[:, cell], lanes=1),
                _lane_blocks(weight[:, cell], lanes=1),
                strict=True,
            )
            slopes = [self._gradient(*block, loss=loss) for block in blocks]
            cells.append(torch.cat(slopes)[:clients])
        return torch.stack(cells).permute(2, 0, 1)

    def _gradient(
        self, theta: Tensor, features: Tensor, target: Tensor, weight: Tensor, *, loss: Loss
    ) -> Tensor:
        """Gradients [lanes, n] at theta [lanes, n]; features [inputs, rows, lanes], target and
        weight [rows, lanes]."""
        own = theta.contiguous().requires_grad_()
        found = []
        for piece in self._pieces(features.shape[1]):
            with torch.enable_grad():
                outputs = self._apply(own, features[:, piece].permute(2, 1, 0)).permute(2, 1, 0)
                values = loss.values(outputs, target[piece])
                means = (values * weight[piece]).sum(0)
                # Clients share no parameter: one pass gives every client its own gradient.
                (slope,) = torch.autograd.grad(means.sum(), own)
            found.append((means.detach(), slope))
        means, slope = (sum(parts[1:], parts[0]) for parts in zip(*found, strict=True))
        gradient: Tensor = slope * loss.client_slope(means)[:, None]
        return gradient

    def _pieces(self, rows: int) -> list[slice]:
        step = self.rows_at_once or rows
        return [slice(start, start + step) for start in range(0, rows, step)]

    def _apply(self, theta: Tensor, inputs: Tensor) -> Tensor:
        """Outputs [batch, rows, out] of parameters [batch, n] on inputs [batch, rows, in]."""
        shape = self.shape
        match shape:
            case LayeredShape():
                return torch.func.vmap(
                    lambda own, rows: layered_outputs(shape, parameters_at(shape, own), rows)
                )(theta, inputs)
            case DenseShape():
                for layer in shape.layers:
                    inputs = inputs.clamp_min(0) if layer.weights.start else inputs
                    sizes = layer.outputs, layer.inputs
                    weights = torch.unflatten(theta[:, layer.weights], 1, sizes)
                    outputs = inputs @ weights.transpose(1, 2)
                    inputs = outputs if layer.bias is None else outputs + theta[:, None, layer.bias]
                return inputs
            case _:
                assert_never(shape)


Network = SmallDenseNetwork | BatchedNetwork

# Beyond these the lanes' temporaries leave the cache and a matrix product wins.
MAX_SMALL_WIDTH = 16
MAX_SMALL_ROWS = 64


def choose_network(shape: DenseShape | LayeredShape, *, rows: int) -> Network:
    """The network for clients of at most `rows` rows.

    The choice depends on the shape alone, never on the stack, so that a run's numbers do not.
    """
    if (
        isinstance(shape, DenseShape)
        and max(shape.sizes) <= MAX_SMALL_WIDTH
        and rows <= MAX_SMALL_ROWS
    ):
        return SmallDenseNetwork(shape)
    return BatchedNetwork(shape)
