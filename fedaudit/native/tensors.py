"""Torch's tensors as arguments of the kernels."""

from typing import Any

from torch import Tensor

from fedaudit.native import library


def address(tensor: Tensor) -> int:
    """The address of a tensor. Raises ValueError unless it is contiguous and on the host."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ValueError("a compiled kernel takes contiguous tensors of the host only")
    return tensor.data_ptr()


def call(kernel: Any, *given: Any) -> None:
    """Calls a kernel as `library.call` does, with tensors by their addresses too. Raises
    MemoryError if it had no memory."""
    known = (address(one) if isinstance(one, Tensor) else one for one in given)
    if library.call(kernel, *known) < 0:
        raise MemoryError("a compiled kernel had no memory for its work")
