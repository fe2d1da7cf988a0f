"""Matrix products of which every single product is rounded to an integer before the sum.

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

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Floats, Ints
from fedaudit.native.library import kernels, line
from fedaudit.native.tensors import call
from fedaudit.networks.shape import Layer
from fedaudit.reproducible import sum_along

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
        """Of inputs [silos, rows, inputs], float32 [silos, rows, outputs].

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
    """As the kernels: numbers divided by powers of two to be below 2^bits, or as they are where it
    is 0, with the last bit set, and what they were divided by along the axis: [rows, 1] or [1, 1].
    """
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
    """Of float32 values integers of at most 2^bits in size, and the power of two that multiplies
    each. Products with powers of two are exact, whichever way round."""
    exponent = torch.frexp(largest)[1] - bits
    one = torch.ones_like(largest, dtype=torch.float64)
    return values.double().mul_(torch.ldexp(one, -exponent)).round_(), torch.ldexp(one, exponent)
