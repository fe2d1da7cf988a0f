"""Torch's tensors as arguments of the kernels."""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedaudit.native import library


@cache
def _type_of(dtype: torch.dtype) -> np.dtype[Any]:
    return torch.empty(0, dtype=dtype).numpy().dtype


def _address(tensor: Tensor, expected: Any) -> int:
    """Address of a contiguous tensor on the host, for a kernel; as `library.place_of`."""
    if not (tensor.is_cpu and tensor.is_contiguous()):
        raise ValueError("a compiled kernel takes contiguous tensors of the host only")
    library.check_type(_type_of(tensor.dtype), expected)
    return tensor.data_ptr()


def call(kernel: Any, *given: Any) -> None:
    """Calls a kernel with numbers as they are, and tensors and arrays by their addresses. Raises
    MemoryError if it had no memory."""
    known = [
        _address(one, expected)
        if isinstance(one, Tensor)
        else library.place_of(one, expected)
        if isinstance(one, np.ndarray)
        else one
        for one, expected in zip(given, kernel.argtypes, strict=True)
    ]
    if kernel(*known) < 0:
        raise MemoryError("a compiled kernel had no memory for its work")
