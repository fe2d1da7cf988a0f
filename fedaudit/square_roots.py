"""Square roots rounded as IEEE 754 asks for, whatever computes them."""

import numpy as np
import torch
from torch import Tensor


def square_root(values: Tensor) -> Tensor:
    """The root of each number; NaN below zero.

    On the host by numpy: torch's may come from a vector library, whose last digit is not always
    the right one, and not the same on every machine.
    """
    if values.device.type != "cpu":
        return values.sqrt()
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.asarray(np.sqrt(values.numpy())))
