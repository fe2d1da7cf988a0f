"""Torch's tensors as arguments of the kernels."""

from torch import Tensor


def address(tensor: Tensor) -> int:
    """Where a tensor lies. Raises ValueError unless it lies on the host and in one piece."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ValueError("a compiled kernel takes tensors of the host in one piece only")
    return tensor.data_ptr()
