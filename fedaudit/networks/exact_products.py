"""Matrix products whose rows depend on nothing but themselves: no sum in them is rounded.

A library adds up the products of a row in an order that depends on how many rows there are, so a
record's numbers would change in their last bits with who is beside it. Here both sides are rounded
first, each number by itself, to so few bits that every sum of products is an integer below 2^53
times a power of two: float64 holds it exactly, in whatever order it is added up (as in Ozaki et
al., "Error-free transformations of matrix multiplication", 2012, with one part for each side).
"""

import torch
from torch import Tensor

_EXACT = 53
"""Bits of an integer that float64 holds."""


def exact_product(rows: Tensor, columns: Tensor) -> Tensor:
    """rows [count, inner] times columns [inner, width]: float64 [count, width].

    Numbers are rounded to multiples of 2^-b of the power of two above the largest of their row, or
    of all columns; b is 21 for 512 to 2,047 inner numbers, and one more or less for a quarter or
    four times as many. A row with a number that is not finite has none that is.
    """
    bits = (_EXACT - rows.shape[1].bit_length()) // 2
    own, of_rows = _integers(rows.double(), rows.abs().amax(1, keepdim=True), bits)
    others, of_columns = _integers(columns.double(), columns.abs().amax(), bits)
    return (own @ others) * of_rows * of_columns


def _integers(values: Tensor, largest: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Integers of at most 2^bits in size, and the power of two that each stands for."""
    exponent = torch.frexp(largest)[1] - bits
    one = torch.ones_like(largest, dtype=torch.float64)
    step = torch.ldexp(one, exponent)
    return (values / step).round(), step
