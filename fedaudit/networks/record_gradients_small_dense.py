"""Clipped per-record gradients of small dense networks, all silos at once.

The same sums as `per_record_dense`, written as elementwise products and sums along one axis: a
matrix library has only tiny products to offer here, and a call for each silo would cost more than
its arithmetic. Rows are added in blocks of one size, and the blocks by halves, so that the order
of the additions depends neither on the padding nor on the other silos.
"""

import torch
from torch import Tensor

from fedaudit.networks.losses import Loss
from fedaudit.networks.parameter_layers import Layer
from fedaudit.networks.record_gradients import RecordBatch, all_finite, shares, squares
from fedaudit.networks.shape import DenseShape
from fedaudit.reproducible import fixed_order_sum

_BLOCK = 64


class SmallDenseClippedGradients:
    """Silos and rows side by side; see `clipped_gradients` for the limits."""

    def __init__(self, shape: DenseShape, loss: Loss) -> None:
        self.shape = shape
        self.n = shape.n
        self._loss = loss

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        """Sums [silos, n]; see `per_record.ClippedGradients`."""
        features, target, mask = _padded(batch)
        inputs, slopes = self._inputs_and_slopes(theta.view(-1, self.n), features, target)
        squared = squares(slopes[0]) * squares(inputs[0])
        for a, d in zip(inputs[1:], slopes[1:], strict=True):
            squared += squares(d) * squares(a)
        norms = squared.sqrt()
        if not all_finite(norms):
            usable = norms.isfinite()[..., None]
            inputs, slopes = (
                [torch.where(usable, part, 0.0) for part in parts] for parts in (inputs, slopes)
            )
        share = (shares(norms, clip=clip) * mask)[..., None]
        parts: list[Tensor] = []
        for layer, a, d in zip(self.shape.layers, inputs, slopes, strict=True):
            summed = _sum_of_products((d * share).float(), a)
            parts.append(summed[..., : layer.inputs].flatten(1))
            if layer.bias is not None:
                parts.append(summed[..., layer.inputs])
        return torch.cat(parts, dim=1)

    def _inputs_and_slopes(
        self, theta: Tensor, features: Tensor, target: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Of each layer its inputs, a 1 for the bias included, and the slopes of its outputs.

        Each [silos, rows, width]; theta [silos or 1, n].
        """
        inputs: list[Tensor] = []
        values = features
        for layer in self.shape.layers:
            values = values.clamp_min(0) if inputs else values
            if layer.bias is not None:
                values = torch.cat((values, torch.ones_like(values[..., :1])), dim=-1)
            inputs.append(values)
            values = (_weights(theta, layer) * values[:, :, None]).sum(-1)
        slope = self._loss.values_and_slopes(values.movedim(-1, 0), target)[1].movedim(0, -1)
        slopes = [slope]
        for layer, values in zip(self.shape.layers[:0:-1], inputs[:0:-1], strict=True):
            weights = _weights(theta, layer)[..., : layer.inputs].transpose(-1, -2).contiguous()
            active = values[..., : layer.inputs] > 0
            slope = (weights * slope[:, :, None]).sum(-1) * active
            slopes.insert(0, slope)
        return inputs, slopes


def _weights(theta: Tensor, layer: Layer) -> Tensor:
    """Weights [silos or 1, 1, outputs, inputs], the bias as the last input."""
    weights = theta[:, layer.weights].view(-1, layer.outputs, layer.inputs)
    if layer.bias is not None:
        weights = torch.cat((weights, theta[:, layer.bias, None]), dim=-1)
    return weights[:, None]


def _sum_of_products(left: Tensor, right: Tensor) -> Tensor:
    """The outer products of [silos, rows, m] and [silos, rows, k] over rows: float64 [silos, m,
    k]."""
    products = left[..., None] * right[:, :, None]
    blocks = products.view(len(left), -1, _BLOCK, *products.shape[2:])
    return fixed_order_sum(blocks.sum(2, dtype=torch.float64), 1)


def _padded(batch: RecordBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Features, target and mask with rows up to a power of two of at least a block."""
    rows = batch.target.shape[1]
    sizes = torch.from_numpy(batch.sizes).to(batch.target.device)
    missing = max(_BLOCK, 1 << max(0, rows - 1).bit_length()) - rows
    mask = torch.arange(rows + missing, device=sizes.device) < sizes[:, None]
    if missing == 0:
        return batch.features, batch.target, mask
    pad = torch.nn.functional.pad
    return pad(batch.features, (0, 0, 0, missing)), pad(batch.target, (0, missing)), mask
