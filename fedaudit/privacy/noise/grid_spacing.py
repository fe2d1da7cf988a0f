"""How wide the cells of the public grid are; see `noise.gaussian`. Free of torch."""

import math

STEPS_BITS = 12
FINEST = 2.0**-149
"""What a float32 can just be: a finer grid would be rounded away."""


def spacing_of(deviation: float) -> float:
    """The power of two between 2^-12 (excluded) and 2^-11 of a standard deviation.

    Without noise it is the finest.
    """
    mantissa, exponent = math.frexp(deviation)
    return max(math.ldexp(0.5 if mantissa else 0.0, exponent - STEPS_BITS + 1), FINEST)


def rounded(value: float, *, deviation: float) -> float:
    """A noised number on the grid of its noise's standard deviation; half to even."""
    spacing = spacing_of(deviation)
    return round(value / spacing) * spacing
