"""What is counted for each group: true positives, false positives, true negatives, false negatives.

"Positive" is the favourable outcome. Counts are pooled over records, not averaged over clients.
Every array of counts ends in [groups, 4], in the order of `fedaudit.spec.metrics.COUNTS`.
"""

import numpy as np
from numpy.typing import NDArray


def scored_rows(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of each group: [..., groups]."""
    total: NDArray[np.int64] = counts.sum(axis=-1)
    return total
