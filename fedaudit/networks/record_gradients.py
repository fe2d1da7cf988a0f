"""Sums of clipped per-record gradients.

A record's gradient is scaled by min(1, clip / norm) before the sum, so that adding or removing a
record moves the sum by at most `clip` (Abadi et al., "Deep learning with differential privacy",
2016). A gradient that is not finite has no norm to be scaled by and counts as zero: the record is
left out, and the sum stays within its sensitivity.

The gradient of a dense layer at one record is the outer product of the layer's inputs a and the
slopes d of its outputs, so its squared norm is ||a||^2 ||d||^2, and ||d||^2 more for a bias
(Goodfellow, "Efficient per-example gradient computations", 2015). Norms come first, then one
product of the scaled slopes with the inputs gives the sum: no record's gradient is written down.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, assert_never

import torch
from torch import Tensor

from fedaudit.arrays import Ints
from fedaudit.networks.rounded_products import PRODUCT_BITS, LayerOfSilos, squares, vector_norms
from fedaudit.networks.shape import (
    ConvolutionalShape,
    DenseShape,
    Layer,
    LayeredShape,
    NetworkShape,
)
from fedaudit.networks.stacked_network import Loss, record_loss
from fedaudit.reproducible import fixed_order_sum, sum_along

# Products of float32 round upwards too. Shortened by this much, a contribution never exceeds clip,
# and neither does what it moves a float64 sum of up to 40,000 contributions by.
_SHORTENED = 1 - 2.0**-20
_ALIGNMENT = 64  # bytes, by which torch allocates


@dataclass(frozen=True)
class RecordBatch:
    """The records of one step, one batch a silo; rows beyond a silo's size are padding."""

    features: Tensor
    """float32 [silos, rows, ...]."""
    target: Tensor
    """float32 [silos, rows]; the class index for classification."""
    sizes: Ints
    """[silos]: records in front. A silo's batch may be empty."""


class ClippedGradients(Protocol):
    """The sum of a batch's clipped per-record gradients."""

    n: int

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        """float64 [silos, n] at theta [silos, n], or [n] where all silos share it.

        In float64, because a sum in single precision is rounded with each addition, by up to 2^-24
        of itself: a record among many would move it by more than `clip`.

        Neither the padding nor the other silos change a silo's sum, to the last bit. With `clip`
        infinite nothing is scaled.
        """


def shares(norms: Tensor, *, clip: float, rounding: float = 0.0) -> Tensor:
    """What is kept of each record: min(1, clip / norm), or 0 where the norm is not finite.

    `norms`: float64, so that no square under- or overflows that a float32 gradient can have.
    `rounding`: by how much rounding may lengthen what is kept; it is taken off `clip`.
    """
    return ((clip * _SHORTENED - rounding) / norms).clamp_max(1.0).nan_to_num(0.0)


def all_finite(norms: Tensor) -> bool:
    """Whether every norm is finite; float64 sums of norms of float32 vectors do not overflow."""
    return math.isfinite(norms.sum().item())


def _finite(norms: Tensor, parts: list[Tensor]) -> list[Tensor]:
    """The parts [..., width], with zeros for records whose norm [...] is not finite."""
    if all_finite(norms):
        return parts
    return [torch.where(norms.isfinite()[..., None], part, 0.0) for part in parts]


def aligned(values: Tensor) -> Tensor:
    """The same numbers where a cache line begins: matrix products round by where an operand lies.

    Rows of a stack begin anywhere, and a silo's numbers may not depend on its place.
    """
    return values if values.data_ptr() % _ALIGNMENT == 0 else values.clone()


_BLOCK = 64


class SmallDenseClippedGradients:
    """All silos at once, as elementwise products and sums along one axis.

    Here a matrix library has only tiny products to offer, and a call for each silo would cost more
    than its arithmetic. Rows are added in blocks of one size, and the blocks by halves, so that the
    order of the additions depends neither on the padding nor on the other silos.
    """

    def __init__(self, shape: DenseShape, loss: Loss) -> None:
        self.shape = shape
        self.n = shape.n
        self._loss = loss

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        features, target, mask = _padded(batch)
        inputs, slopes = self._inputs_and_slopes(theta.view(-1, self.n), features, target)
        squared = squares(slopes[0]) * squares(inputs[0])
        for a, d in zip(inputs[1:], slopes[1:], strict=True):
            squared += squares(d) * squares(a)
        norms = squared.sqrt()
        inputs, slopes = _finite(norms, inputs), _finite(norms, slopes)
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
            values = sum_along(_weights(theta, layer) * values[:, :, None], -1)
        slope = self._loss.slopes(values.movedim(-1, 0), target).movedim(0, -1)
        slopes = [slope]
        for layer, values in zip(self.shape.layers[:0:-1], inputs[:0:-1], strict=True):
            weights = _weights(theta, layer)[..., : layer.inputs].transpose(-1, -2).contiguous()
            active = values[..., : layer.inputs] > 0
            slope = sum_along(weights * slope[:, :, None], -1) * active
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
    return fixed_order_sum(sum_along(blocks, 2, dtype=torch.float64), 1)


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


class DenseClippedGradients:
    """Each silo from the records of its batch alone.

    On the host outputs and slopes are sums of rounded products (`networks.rounded_products`), of
    which a row follows from that row and the weights. So is the sum over records, under a clip: a
    record adds to each parameter the integer next to what it contributes in units of u, a power of
    two between 2^-19 (excluded) and 2^-18 of the clip. Integers add up exactly, so it moves the sum
    by just what it adds, whatever else is in the batch. Rounding moves each of the n parameters by
    at most u / 2, so what it adds is longer than what was clipped by at most u / 2 * root(n), which
    is taken off the clip: 0.03 to 0.06 % of it for 100,000 parameters.

    A device has exact products instead, and sums in float64, as the host has without a clip.
    """

    def __init__(self, shape: DenseShape, loss: Loss) -> None:
        self.shape = shape
        self.n = shape.n
        self._loss = loss

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        """Raises RuntimeError where matrix products are set to less than float32: their rounding
        would carry contributions over the clip.
        """
        if torch.get_float32_matmul_precision() != "highest":
            raise RuntimeError(
                "clipping needs float32 products; set_float32_matmul_precision('highest')"
            )
        own = theta.view(-1, self.n)
        own = own[:1] if own.stride(0) == 0 else own.contiguous()
        layers = [LayerOfSilos(layer, own, batch.sizes) for layer in self.shape.layers]
        inputs: list[Tensor] = []
        values = batch.features.contiguous()
        for layer in layers:
            inputs.append(values.clamp_min(0) if inputs else values)
            values = layer.outputs(inputs[-1])
        slope = self._loss.slopes(values.movedim(-1, 0), batch.target)
        slopes = [slope.movedim(0, -1).contiguous()]
        for layer, a in zip(layers[:0:-1], inputs[:0:-1], strict=True):
            slopes.insert(0, layer.slopes_of_inputs(slopes[0], a))
        squared = torch.zeros(batch.target.shape, dtype=torch.float64, device=theta.device)
        for layer, a, d in zip(layers, inputs, slopes, strict=True):
            layer.add_squares(d, a, to=squared)
        norms = squared.sqrt()
        sums = torch.empty(len(squared), self.n, dtype=torch.float64, device=theta.device)
        if theta.is_cpu and math.isfinite(clip):
            unit = math.ldexp(1.0, math.frexp(clip)[1] - PRODUCT_BITS)
            share = shares(norms, clip=clip, rounding=unit / 2 * math.sqrt(self.n))
            for layer, a, d in zip(layers, inputs, slopes, strict=True):
                layer.summed(d, share, a, unit=unit, out=sums)
            return sums
        for silo, size in enumerate(batch.sizes.tolist()):
            here = norms[silo, :size]
            share = shares(here, clip=clip)[:, None]
            own_inputs = _finite(here, [a[silo, :size] for a in inputs])
            own_slopes = _finite(here, [d[silo, :size] for d in slopes])
            for place, a, d in zip(self.shape.layers, own_inputs, own_slopes, strict=True):
                scaled = d * share
                sums[silo, place.weights] = (scaled.t() @ a.double()).view(-1)
                if place.bias is not None:
                    sums[silo, place.bias] = scaled.sum(0)
        return sums


LossOfRecord = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The loss of one record from parameters [n], its features and its target: a scalar."""


class AnyNetworkClippedGradients:
    """One record after the other: for convolutions, and the oracle of the forms written by hand.

    A batch would take half the time or less; but libraries round a record's numbers in it by the
    records beside it, so that one record would move the gradients of others by an unbounded amount.
    """

    def __init__(self, record_loss: LossOfRecord, *, n: int) -> None:
        self.n = n
        self._gradient = torch.func.grad(record_loss)

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        own = theta.expand(len(batch.sizes), self.n)
        sums = torch.zeros(own.shape, device=theta.device, dtype=torch.float64)
        for silo, size in enumerate(batch.sizes.tolist()):
            model = aligned(own[silo])
            for row in range(size):
                features, target = aligned(batch.features[silo, row]), batch.target[silo, row]
                # The network may compute in reduced precision; norms of its gradients may not.
                gradient = self._gradient(model, features, target).float()
                norm = vector_norms(gradient)
                if all_finite(norm):
                    sums[silo] += gradient * shares(norm, clip=clip).float()
        return sums


# Beyond this many weights of a layer the temporaries leave the cache and a matrix product wins.
_MAX_SMALL_WEIGHTS = 256


def clipped_gradients(shape: NetworkShape, loss: Loss) -> ClippedGradients:
    """The implementation for a network and a loss.

    The choice depends on the shape alone, so that a run's numbers do not. Raises ValueError for a
    loss that is not a mean over records: the root of a mean has no gradient of one record.
    """
    if loss.root_mean:
        raise ValueError(
            f"the loss {loss.kind} is not a mean over records, so no record's gradient can be "
            "clipped; use mse or cross-entropy"
        )
    match shape:
        case ConvolutionalShape() | LayeredShape():
            return AnyNetworkClippedGradients(partial(record_loss, shape, loss), n=shape.n)
        case DenseShape():
            if max(layer.inputs * layer.outputs for layer in shape.layers) <= _MAX_SMALL_WEIGHTS:
                return SmallDenseClippedGradients(shape, loss)
            return DenseClippedGradients(shape, loss)
        case _:
            assert_never(shape)
