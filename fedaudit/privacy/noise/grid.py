"""The public grid that everything is rounded to once it has its noise.

Noise is a float64, and so is its sum with what it hides. Which of these numbers can come up depends
on what is hidden: read to the last bit, a sum would tell it (Mironov, "On significance of the least
significant bits for differential privacy", 2012). So what leaves is the nearest multiple of a
power of two that is coarse against the errors of float64 noise, 2^-49 standard deviations on
average, and fine against the noise itself: 2^-12 to 2^-11 of a standard deviation. That a number
falls into another cell than its real one would then has a chance of at most 2 * 2^-49 / 2^-12, and
no more than n * 2^-34 for n of them, all other roundings of noise included.

The spacing follows from public numbers alone, the standard deviation that the noise has or, where a
secret scales it, the least that it can have. Rounding what is noised already costs no epsilon, and
neither does the narrower float32 in which the multiple is stored.
"""

import torch
from torch import Tensor

from fedaudit.privacy.noise.grid_spacing import FINEST, STEPS_BITS


def grid_spacing(deviation: Tensor) -> Tensor:
    """A power of two for each standard deviation, float64, not negative: see `spacing_of`."""
    mantissa, _ = torch.frexp(deviation)
    # Without noise there is nothing to divide, and the finest grid, which float32 has anyway.
    power = (deviation / mantissa).nan_to_num_(0.0)
    return (power * 2.0**-STEPS_BITS).clamp_(min=FINEST)


def round_to_grid(values: Tensor, spacing: Tensor) -> Tensor:
    """Rounds values, float64, to multiples of `spacing`, in place; half to even.

    Values so large that a float64 has no finer digits stay as they are. What is not finite stays
    so.
    """
    return values.div_(spacing).round_().mul_(spacing)
