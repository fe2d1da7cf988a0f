"""Torch computations whose digits depend on neither the machine nor what else is computed."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


def fixed_order_sum(values: Tensor, dim: int) -> Tensor:
    """The sum along `dim`, by halves in a fixed order, elementwise over all other axes.

    A library reduction may choose its order by the size of the other axes; then a client's sum
    would depend on how many clients and cells it is stacked with.
    """
    size = values.shape[dim]
    while size > 1:
        half = size // 2
        folded = values.narrow(dim, 0, half) + values.narrow(dim, half, half)
        if size % 2:
            folded.select(dim, 0).add_(values.select(dim, size - 1))
        values, size = folded, half
    return values.select(dim, 0)


def padded_rows(rows: int) -> int:
    """To how many rows this many are padded: a power of two, with which sums by halves of more
    padding are the same, and at least 16, so that clients with few rows are computed together."""
    return max(16, 1 << (rows - 1).bit_length())


def sum_along(values: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
    """The sum along `dim`, whose digits do not depend on the length of the other axes. On the host
    it is torch's, which adds up each sum by itself. A GPU divides its threads over all axes: the
    sum of a record's gradient had other digits there beside other silos."""
    if values.device.type == "cpu":
        return values.sum(dim, dtype=dtype)
    return fixed_order_sum(values.to(dtype or values.dtype), dim)


def square_root(values: Tensor) -> Tensor:
    """The root of each number; NaN below zero.

    On the host by numpy: torch's may come from a vector library, whose last digit is not always
    the right one, and not the same on every machine.
    """
    if values.device.type != "cpu":
        return values.sqrt()
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.asarray(np.sqrt(values.numpy())))


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread within, and afterwards on as many as before. The order in which
    a large sum, convolution or matrix product adds up depends on their number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def prepared_device(name: str) -> torch.device:
    """The device, `cpu` or `cuda:N`, set so that convolutions give the same digits each time, in
    full single precision: by default a GPU keeps 10 bits of products (TF32) and adds up in any
    order."""
    device = torch.device(name)
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.deterministic = True
    return device
