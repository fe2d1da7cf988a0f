"""Arrays by the type of their numbers, for signatures; what has one states its shape."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Ints16 = NDArray[np.int16]
Ints32 = NDArray[np.int32]


def finite(value: float | None) -> float | None:
    """The number; None in place of NaN and infinities, and where there is none."""
    return float(value) if value is not None and math.isfinite(value) else None


def renumbered(numbers: NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """The distinct ones of small numbers from 0, ascending, and the place of each in them: what
    `np.unique` finds by sorting."""
    present = np.bincount(numbers) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[numbers]
