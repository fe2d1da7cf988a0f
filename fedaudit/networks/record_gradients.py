"""Sums of clipped per-record gradients.

A record's gradient is scaled by min(1, clip / norm) before the sum, so that adding or removing a
record moves the sum by at most `clip` (Abadi et al., "Deep learning with differential privacy",
2016). A gradient that is not finite has no norm to be scaled by and counts as zero: the record is
left out, and the sum stays within its sensitivity.

The gradient of a dense layer at one record is the outer product of the layer's inputs a and the
slopes d of its outputs, so its squared norm is ||a||^2 ||d||^2, and ||d||^2 more for a bias
(Goodfellow, "Efficient per-example gradient computations", 2015). Norms come first, then one
product of the scaled slopes with the inputs gives the sum: no record's gradient is written down.

Matrix products of which every single product is rounded to an integer before the sum.

A library adds up products in an order that depends on how many rows there are: one record would
change how the gradients of others are rounded. A sum of integers is exact, and so the same in any
order:

    sum over k of rint(left[i, k] * right[k, j])

Both sides are float32, moved by powers of two so that no product is larger than 2^19. The result
follows from the integers alone, and row i of it from row i of `left`: no other row is read.

The compiled kernel adds up as fast as a library does, because it takes the rounding of single
precision for rint. Close to c = 1.5 * 2^23, from 2^23 to 2^24, neighbouring floats are one apart.
A product and a sum in one instruction round the exact value once (IEEE 754, fusedMultiplyAdd), so

    fma(a, b, c + x) = c + the integer next to x + a * b = c + x + rint(a * b)

for an integer x, if c + x + a * b stays between 2^23 and 2^24, and if a * b is not halfway between
two integers, where the choice would depend on whether x is even. Both are made sure of:

- At most 8 products follow each other before their sum is added, as an integer, to one that starts
  anew: |x + a * b| <= 8 * 2^19 = 2^22.
- The last bit of every number is set (`odd`), which moves it by at most 2^-23 of itself. Numbers
  are then odd integers of 24 bits times a power of two (smaller ones than 2^-100 are left out, so
  none has fewer bits). A product is an odd integer of at least 2^46 times a power of two. If it
  were half an odd integer, that power would be 1/2 and the product 2^45 at least; it is 2^19 at
  most.

So every implementation of rint(a * b) gives the same: float64 holds the product of two float32
exactly, rint of it has no tie to break, and sums of n of them stay below 2^53 for n up to 2^34.
`tests/networks/test_rounded_products.py` holds the kernels to it, and searches for ties.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, assert_never

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Floats, Ints
from fedaudit.native.library import kernels, line
from fedaudit.native.tensors import call
from fedaudit.networks.shape import DenseShape, Layer, LayeredShape, NetworkShape
from fedaudit.networks.stacked_network import Loss, record_loss
from fedaudit.reproducible import fixed_order_sum, sum_along

_LEFT_BITS, _RIGHT_BITS = 9, 10
PRODUCT_BITS = _LEFT_BITS + _RIGHT_BITS
"""No product of two prepared numbers may be larger than 2 to this."""
_LEAST_EXPONENT = -100
# Of a row whose largest number is 2^8 or more, no factor may be larger; rows of zeros, and of
# numbers below 2^-100, bound nothing themselves.
_LARGEST_FACTOR = 2.0 ** (PRODUCT_BITS - _LEFT_BITS + 1)


@dataclass(frozen=True, eq=False)
class LayerOfSilos:
    """A dense layer with each silo's parameters; on the host by sums of rounded products."""

    layer: Layer
    theta: Tensor
    """float32 [silos, n], or [1, n] where all share them; contiguous."""
    sizes: Ints
    """[silos]: how many rows of each are computed."""

    def outputs(self, inputs: Tensor) -> Tensor:
        """Outputs, float32 [silos, rows, outputs], of inputs [silos, rows, inputs].

        A row that is not finite gives one that is NaN, and weights that are not finite give
        nothing else; rows beyond a silo's size become what no result depends on.
        """
        return self._times(inputs, across=True)

    def slopes_of_inputs(self, slopes: Tensor, inputs: Tensor) -> Tensor:
        """The slopes of a loss by inputs [silos, rows, inputs] that were cut at zero, of those by
        the outputs [silos, rows, outputs]; float32."""
        return self._times(slopes, across=False, active=inputs)

    def add_squares(self, slopes: Tensor, inputs: Tensor, *, to: Tensor) -> None:
        """Adds the squared norm of each row's gradient `to` float64 [silos, rows]."""
        library, bias = kernels(), self.layer.bias is not None
        if library is None or not slopes.is_cpu:
            to += squares(slopes) * (squares(inputs) + bias)
            return
        sizes = to.numel(), slopes.shape[2], inputs.shape[2]
        call(library.fedaudit_layer_squares, slopes, inputs, *sizes, int(bias), to)

    def summed(
        self, slopes: Tensor, shares: Tensor, inputs: Tensor, *, unit: float, out: Tensor
    ) -> None:
        """Writes to the layer's places in `out`, float64 [silos, n], of each silo the sum over rows
        of what the parameters' gradients are, times shares, float64 [silos, rows]. Each number is
        rounded to a multiple of `unit`, a power of two, before the sum. On the host.

        Of no row may the product of its norms and its share be larger than 2^19 times `unit`.
        Infinite and undefined products with shares count as 0.
        """
        library, (silos, rows, outputs) = kernels(), slopes.shape
        if library is not None:
            given = slopes, shares, line(self.sizes, np.int64), silos, rows, outputs
            places = *self._places, out.shape[1]
            call(
                library.fedaudit_layer_sums,
                *(*given, inputs, inputs.shape[2], unit, _LARGEST_FACTOR, *places, out),
            )
            return
        for silo, size in enumerate(self.sizes.tolist()):
            factors = slopes[silo, :size] * shares[silo, :size, None]
            right, units = _odd(inputs[silo, :size].numpy(), bits=_LEFT_BITS, axis=1)
            moved = factors * torch.from_numpy(units / unit)
            moved = moved.nan_to_num_(0.0, 0.0, 0.0).clamp_(-_LARGEST_FACTOR, _LARGEST_FACTOR)
            left, _ = _odd(moved.float().numpy(), bits=0, axis=None)
            weights = torch.from_numpy(_sums(left.T, right)).mul_(unit)
            out[silo, self.layer.weights] = weights.view(-1)
            if self.layer.bias is not None:
                integers = factors.nan_to_num_(0.0, 0.0, 0.0).div_(unit).round_()
                out[silo, self.layer.bias] = integers.sum(0).mul_(unit)

    @property
    def _places(self) -> tuple[int, int]:
        """Where the weights begin, and the bias; -1 if there is none."""
        return self.layer.weights.start, -1 if self.layer.bias is None else self.layer.bias.start

    def _times(self, rows: Tensor, *, across: bool, active: Tensor | None = None) -> Tensor:
        """Rows times the weights, plus the bias where it goes `across` them to the outputs."""
        shape, n, host = rows.shape, self.theta.shape[1], rows.device.type == "cpu"
        columns = self.layer.outputs if across else self.layer.inputs
        library = kernels()
        if library is not None and host:
            found = torch.empty(*shape[:2], columns)
            stride = n if len(self.theta) > 1 else 0
            given = rows, line(self.sizes, np.int64), *shape, self.theta, stride, *self._places
            call(library.fedaudit_layer_times, *given, columns, int(across), active, found)
            return found
        weights = self.theta[:, self.layer.weights].view(-1, self.layer.outputs, self.layer.inputs)
        products = rows.new_zeros(*shape[:2], columns, dtype=torch.float64)
        for silo, size in enumerate(self.sizes.tolist()):
            right = weights[silo % len(weights)]
            product = rounded_product if host else exact_product
            products[silo, :size] = product(rows[silo, :size], right.t() if across else right)
        if across and self.layer.bias is not None:
            products += self.theta[:, None, self.layer.bias]
        outputs = products.float()
        return outputs if active is None else outputs * (active > 0)


def rounded_product(rows: Tensor, columns: Tensor) -> Tensor:
    """rows [count, inner] times columns [inner, width], on the host: float64 [count, width]."""
    left, of_rows = _odd(rows.numpy(), bits=_LEFT_BITS, axis=1)
    right, of_columns = _odd(columns.numpy(), bits=_RIGHT_BITS, axis=None)
    return torch.from_numpy(_sums(left, right) * (of_rows * of_columns))


def _sums(left: Floats, right: Floats) -> Floats:
    """The sums of rounded products of float32: float64 [rows, columns]."""
    total = np.zeros((len(left), right.shape[1]))
    product = np.empty_like(total)
    for column, row in zip(left.T.astype(np.float64), right.astype(np.float64), strict=True):
        np.multiply(column[:, None], row, out=product)
        total += np.rint(product, out=product)
    return total


def _odd(values: Floats, *, bits: int, axis: int | None) -> tuple[Floats, Floats]:
    """Divide numbers by powers of two to be below 2^bits (not where `bits` is 0) and set the last
    bit, as the kernels do; return them and their divisors along the axis: [rows, 1] or [1, 1]."""
    power = np.ones((1, 1), dtype=np.float32)
    units = np.ones((1, 1))
    if bits:
        largest = np.abs(values).max(axis=axis, keepdims=True, initial=0)
        exponent = np.where(largest > 0, np.frexp(largest)[1], _LEAST_EXPONENT)
        exponent = np.maximum(exponent, _LEAST_EXPONENT)
        power = np.ldexp(np.float32(1), bits - exponent)
        units = np.where(np.isfinite(largest), 1 / power.astype(np.float64), np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        moved = values * power
    size = np.abs(moved)
    kept = (size >= 2.0**_LEAST_EXPONENT) & (size < np.inf)
    odd = (moved.view(np.int32) | 1).view(np.float32)
    return np.where(kept, odd, np.float32(0)), units


def squares(vectors: Tensor) -> Tensor:
    """Squared Euclidean norms along the last axis, in float64."""
    return vector_norms(vectors).square()


def vector_norms(vectors: Tensor) -> Tensor:
    """Euclidean norms along the last axis, in float64."""
    if vectors.device.type != "cpu":
        return sum_along(vectors.double().square(), -1).sqrt()
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float64)
    return norms


_EXACT = 53
"""Bits of an integer that float64 holds."""


def exact_product(rows: Tensor, columns: Tensor) -> Tensor:
    """rows [count, inner] times columns [inner, width]: float64 [count, width].

    Each row of the result depends on that row alone: a library adds up products in an order that
    depends on how many rows there are, so both sides are rounded first to so few bits that every
    sum of products is an integer below 2^53 times a power of two, which float64 holds exactly in
    any order (as in Ozaki et al., "Error-free transformations of matrix multiplication", 2012, with
    one part for each side).

    Numbers are rounded to multiples of 2^-b of the power of two above the largest of their row, or
    of all columns; b is 21 for 512 to 2,047 inner numbers, and one more or less for a quarter or
    four times as many. A row with a number that is not finite has none that is.
    """
    bits = (_EXACT - rows.shape[1].bit_length()) // 2
    own, of_rows = _integers(rows, rows.abs().amax(1, keepdim=True), bits)
    others, of_columns = _integers(columns, columns.abs().amax(), bits)
    return (own @ others).mul_(of_rows * of_columns)


def _integers(values: Tensor, largest: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Turn float32 values into integers of at most 2^bits in size, and the power of two that
    multiplies each. Products with powers of two are exact, whichever way round."""
    exponent = torch.frexp(largest)[1] - bits
    one = torch.ones_like(largest, dtype=torch.float64)
    return values.double().mul_(torch.ldexp(one, -exponent)).round_(), torch.ldexp(one, exponent)


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


_LEAST_NORMAL = float(torch.finfo(torch.float32).smallest_normal)


def _single(factors: Tensor) -> Tensor:
    """Factors of gradients, float64, in float32; 0 up to its smallest normal number. Smaller ones
    are rounded by up to their own size, and a product with them could be twice the clip."""
    return torch.nn.functional.hardshrink(factors.float(), _LEAST_NORMAL)


def all_finite(norms: Tensor) -> bool:
    """Whether every norm is finite; float64 sums of norms of float32 vectors do not overflow."""
    return math.isfinite(norms.sum().item())


def _finite(norms: Tensor, *parts: list[Tensor]) -> Sequence[list[Tensor]]:
    """The parts [..., width], with zeros for records whose norm [...] is not finite."""
    if all_finite(norms):
        return parts
    finite = norms.isfinite()[..., None]
    return [[torch.where(finite, one, 0.0) for one in part] for part in parts]


def aligned(values: Tensor) -> Tensor:
    """The same numbers where a cache line begins: an operand's address decides how products round.

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
        inputs, slopes = _finite(norms, inputs, slopes)
        share = shares(norms, clip=clip)
        share = (share if mask is None else share * mask)[..., None]
        parts: list[Tensor] = []
        for layer, a, d in zip(self.shape.layers, inputs, slopes, strict=True):
            summed = _sum_of_products(_single(d * share), a)
            if layer.outputs == 1:  # as `_weights` has it
                parts.append(summed.flatten(1))
                continue
            parts.append(summed[..., : layer.inputs].flatten(1))
            if layer.bias is not None:
                parts.append(summed[..., layer.inputs])
        return torch.cat(parts, dim=1)

    def _inputs_and_slopes(
        self, theta: Tensor, features: Tensor, target: Tensor
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The inputs of each layer, a 1 for the bias included, and the slopes of its outputs.

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
    if layer.bias is not None and layer.outputs == 1:  # its bias comes after its weights already
        return theta[:, None, None, layer.weights.start : layer.bias.stop]
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


def _padded(batch: RecordBatch) -> tuple[Tensor, Tensor, Tensor | None]:
    """Features, target and mask with rows up to a power of two of at least a block; no mask where
    every row is a record."""
    rows = batch.target.shape[1]
    missing = max(_BLOCK, 1 << max(0, rows - 1).bit_length()) - rows
    if missing == 0 and batch.sizes.min(initial=rows) == rows:
        return batch.features, batch.target, None
    sizes = torch.from_numpy(batch.sizes).to(batch.target.device)
    mask = torch.arange(rows + missing, device=sizes.device) < sizes[:, None]
    if missing == 0:
        return batch.features, batch.target, mask
    pad = torch.nn.functional.pad
    return pad(batch.features, (0, 0, 0, missing)), pad(batch.target, (0, missing)), mask


class DenseClippedGradients:
    """Each silo from the records of its batch alone.

    On the host outputs and slopes are sums of rounded products (see the text of this file), of
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
            own_inputs, own_slopes = _finite(
                here, [a[silo, :size] for a in inputs], [d[silo, :size] for d in slopes]
            )
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
                    sums[silo] += gradient * _single(shares(norm, clip=clip))
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
        case LayeredShape():
            return AnyNetworkClippedGradients(partial(record_loss, shape, loss), n=shape.n)
        case DenseShape():
            if max(layer.inputs * layer.outputs for layer in shape.layers) <= _MAX_SMALL_WEIGHTS:
                return SmallDenseClippedGradients(shape, loss)
            return DenseClippedGradients(shape, loss)
        case _:
            assert_never(shape)
