"""The scored rows of one sensitive attribute, one by one: what rates and gaps can be computed from
a second time, without the counts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class PredictedRows:
    """Rows that have a group and were scored, in any order. Confidential."""

    groups: NDArray[np.int64]
    """[rows]: positions in the attribute's values."""
    truth: NDArray[np.bool_] | None
    """[rows]: whether the true outcome is favourable; None where none was declared."""
    predicted: NDArray[np.bool_] | None
    """[rows]: whether the predicted outcome is favourable; None with `truth`."""
    true_classes: NDArray[np.int64] | None
    """[rows]; None for regression."""
    predicted_classes: NDArray[np.int64] | None
    """[rows]; None for regression."""
