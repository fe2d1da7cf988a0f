"""Arrays by the type of their numbers, for signatures; what has one states its shape."""

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Ints16 = NDArray[np.int16]
Ints32 = NDArray[np.int32]
