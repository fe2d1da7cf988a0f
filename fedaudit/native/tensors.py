"""Torch's tensors as arguments of the kernels."""

from torch import Tensor


def address(tensor: Tensor) -> int:
    """The address of a tensor. Raises ValueError unless it is contiguous and on the host."""
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise ValueError("a compiled kernel takes contiguous tensors of the host only")
    return tensor.data_ptr()
