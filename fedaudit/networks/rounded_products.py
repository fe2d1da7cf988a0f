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

from fedaudit.arrays import Floats
from fedaudit.native.library import kernels
from fedaudit.native.tensors import call

_LEFT_BITS, _RIGHT_BITS = 9, 10
PRODUCT_BITS = _LEFT_BITS + _RIGHT_BITS
"""No product of two prepared numbers may be larger than 2 to this."""
_LEAST_EXPONENT = -100


@dataclass(frozen=True, eq=False)
class OddRows:
    """Rows of numbers whose last bit is set, each row divided by a power of two to be below 2^9."""

    numbers: Tensor
    """float32 [rows, width]."""
    units: Tensor
    """float64 [rows]: what a row was divided by; NaN where it has a number that is not finite."""

    @classmethod
    def of(cls, values: Tensor) -> "OddRows":
        """Values float32 [rows, width] on the host."""
        library = kernels()
        if library is None:
            odd, of_rows = _odd(values.numpy(), bits=_LEFT_BITS, axis=1)
            return cls(torch.from_numpy(odd), torch.from_numpy(of_rows[:, 0]))
        numbers = torch.empty(values.shape)
        units = torch.empty(len(values), dtype=torch.float64)
        call(library.fedaudit_odd_rows, values, *values.shape, _LEFT_BITS, numbers, units)
        return cls(numbers, units)

    def times(
        self,
        weights: Tensor,
        *,
        across: bool,
        bias: Tensor | None = None,
        active: Tensor | None = None,
    ) -> Tensor:
        """The rows times weights [width, columns], or [columns, width] where `across`, and a bias
        [columns]; 0 where `active` [rows, columns] is not positive: float32 [rows, columns].

        A row that is not finite gives one that is NaN, and weights that are not finite give
        nothing else.
        """
        library, (rows, width) = kernels(), self.numbers.shape
        if library is not None:
            columns = weights.shape[0 if across else 1]
            found = torch.empty(rows, columns)
            how = columns, int(across), _RIGHT_BITS, bias, active, found
            call(library.fedaudit_times, self.numbers, self.units, rows, width, weights, *how)
            return found
        right, unit = _odd(weights.numpy(), bits=_RIGHT_BITS, axis=None)
        sums = _sums(self.numbers.numpy(), right.T if across else right)
        outputs = torch.from_numpy(sums) * (self.units * unit.item())[:, None]
        found = (outputs if bias is None else outputs + bias).float()
        return found if active is None else found * (active > 0)

    def summed(
        self, slopes: Tensor, shares: Tensor, *, unit: float, out: Tensor, bias: Tensor | None
    ) -> None:
        """Writes to `out`, float64 [columns, width], the sum over rows of the outer products of
        slopes, float32 [rows, columns], times shares, float64 [rows], and what each row was before
        it was divided; to `bias`, float64 [columns], the sum of slopes times shares. Each number is
        rounded to a multiple of `unit`, a power of two, before the sum.

        Of no row may the product of its norm and that of its slopes and its share be larger than
        2^19 times `unit`. Infinite and undefined products with shares count as 0.
        """
        # No more than that bound allows for a row whose largest number is 2^8 or more; rows of
        # zeros, and of numbers below 2^-100, bound nothing themselves.
        largest = 2.0 ** (PRODUCT_BITS - _LEFT_BITS + 1)
        library, (rows, width) = kernels(), self.numbers.shape
        if library is not None:
            given = slopes, shares, rows, slopes.shape[1], self.numbers, self.units, width
            call(library.fedaudit_summed, *given, unit, largest, out, bias)
            return
        factors = slopes * shares[:, None]
        moved = factors * (self.units / unit)[:, None]
        moved = moved.nan_to_num_(0.0, 0.0, 0.0).clamp_(-largest, largest).float()
        left, _ = _odd(moved.numpy(), bits=0, axis=None)
        out[:] = torch.from_numpy(_sums(left.T, self.numbers.numpy())).mul_(unit)
        if bias is not None:
            integers = factors.nan_to_num_(0.0, 0.0, 0.0).div_(unit).round_()
            bias[:] = integers.sum(0).mul_(unit)


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
