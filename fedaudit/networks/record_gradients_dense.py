"""Clipped per-record gradients of dense networks by matrix products.

The gradient of layer l at one record is the outer product of the layer's inputs a and the slopes d
of its outputs, so its squared norm is ||a||^2 ||d||^2, and ||d||^2 more for a bias (Goodfellow,
"Efficient per-example gradient computations", 2015). Norms come first, then one product of the
scaled slopes with the inputs gives the sum: no record's gradient is ever written down.
"""

import torch
from torch import Tensor

from fedaudit.networks.exact_products import exact_product
from fedaudit.networks.losses import Loss
from fedaudit.networks.record_gradients import RecordBatch, aligned, all_finite, shares, squares
from fedaudit.networks.shape import DenseShape


class DenseClippedGradients:
    """One silo at a time, on the records of its own batch alone."""

    def __init__(self, shape: DenseShape, loss: Loss) -> None:
        self.shape = shape
        self.n = shape.n
        self._loss = loss

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        """Sums [silos, n]; see `per_record.ClippedGradients`.

        Raises RuntimeError where matrix products are set to less than float32: their rounding
        would carry contributions over the clip.
        """
        if torch.get_float32_matmul_precision() != "highest":
            raise RuntimeError(
                "clipping needs float32 products; set_float32_matmul_precision('highest')"
            )
        own = theta.expand(len(batch.sizes), self.n)
        sums = torch.zeros(own.shape, device=theta.device, dtype=torch.float64)
        for silo, size in enumerate(batch.sizes.tolist()):
            if size > 0:
                features = aligned(batch.features[silo, :size])
                target = batch.target[silo, :size]
                self._one(own[silo], features, target, clip=clip, out=sums[silo])
        return sums

    def _one(
        self, theta: Tensor, features: Tensor, target: Tensor, *, clip: float, out: Tensor
    ) -> None:
        """Writes the sum of one silo's records [rows, inputs] into `out` [n]."""
        weights = [
            aligned(theta[layer.weights]).view(layer.outputs, layer.inputs)
            for layer in self.shape.layers
        ]
        inputs, outputs = self._activations(theta, weights, features)
        slopes = self._slopes(weights, inputs, outputs, target)
        squared = torch.zeros(len(target), dtype=torch.float64, device=theta.device)
        for layer, a, d in zip(self.shape.layers, inputs, slopes, strict=True):
            squared += squares(d) * (squares(a) + (layer.bias is not None))
        norms = squared.sqrt()
        if not all_finite(norms):
            usable = norms.isfinite()[:, None]
            inputs, slopes = (
                [torch.where(usable, part, 0.0) for part in parts] for parts in (inputs, slopes)
            )
        share = shares(norms, clip=clip)[:, None]
        for layer, a, d in zip(self.shape.layers, inputs, slopes, strict=True):
            scaled = d * share
            out[layer.weights] = (scaled.t() @ a.double()).view(-1)
            if layer.bias is not None:
                out[layer.bias] = scaled.sum(0)

    def _activations(
        self, theta: Tensor, weights: list[Tensor], features: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """The inputs of every layer, and the outputs of the last; each [rows, width]."""
        inputs: list[Tensor] = []
        values = features
        for layer, weight in zip(self.shape.layers, weights, strict=True):
            values = values.clamp_min(0) if inputs else values
            inputs.append(values)
            values = exact_product(values, weight.t())
            if layer.bias is not None:
                values += theta[layer.bias]
            values = values.float()
        return inputs, values

    def _slopes(
        self, weights: list[Tensor], inputs: list[Tensor], outputs: Tensor, target: Tensor
    ) -> list[Tensor]:
        """The derivative of each record's loss by the outputs of every layer, [rows, width]."""
        slope = self._loss.values_and_slopes(outputs.t(), target)[1].t()
        slopes = [slope]
        for weight, values in zip(weights[:0:-1], inputs[:0:-1], strict=True):
            slope = exact_product(slope, weight).float() * (values > 0)
            slopes.insert(0, slope)
        return slopes
