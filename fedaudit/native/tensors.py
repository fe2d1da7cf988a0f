"""Torch's tensors as arguments of the kernels."""

from typing import Any

from torch import Tensor

from fedaudit.native import library


def address(tensor: Tensor) -> int:
    """The address of a tensor. Raises ValueError unless it is contiguous and on the host."""
    if not (tensor.is_cpu and tensor.is_contiguous()):
        raise ValueError("a compiled kernel takes contiguous tensors of the host only")
    return tensor.data_ptr()


def call(kernel: Any, *given: Any) -> None:
    """Calls a kernel as `library.call` does, with tensors by their addresses too. Raises
    MemoryError if it had no memory."""
    known = [v if type(v) is int or not isinstance(v, Tensor) else address(v) for v in given]
    if library.call(kernel, *known) < 0:
        raise MemoryError("a compiled kernel had no memory for its work")
