"""What is counted for each group: true positives, false positives, true negatives, false negatives.

"Positive" is the favourable outcome. Counts are pooled over records, not averaged over clients.
Every array of counts here ends in [groups, 4], in the order below.
"""

import numpy as np
from numpy.typing import NDArray

RATES = ("selection_rate", "true_positive_rate", "false_positive_rate")
"""The rates of `group_rates`, in order."""

# Which of the four counts stand in a rate's numerator and denominator.
_NUMERATORS = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]], dtype=np.float64)
_DENOMINATORS = np.array([[1, 1, 1, 1], [1, 0, 0, 1], [0, 1, 1, 0]], dtype=np.float64)


def scored_rows(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of each group: [..., groups]."""
    total: NDArray[np.int64] = counts.sum(axis=-1)
    return total


def group_rates(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """[..., groups, 4] to [..., 3, groups]: the RATES of each group, NaN without a denominator."""
    # Counts stay far below 2**53, so these products are exact.
    numbers = counts.swapaxes(-1, -2).astype(np.float64)
    numerators, denominators = _NUMERATORS @ numbers, _DENOMINATORS @ numbers
    with np.errstate(invalid="ignore"):
        rates: NDArray[np.float64] = numerators / denominators
    return rates
