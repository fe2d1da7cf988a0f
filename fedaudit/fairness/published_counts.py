"""The counts that published rates are made from: exact, rounded at random, or with noise.

Whatever is published of held-out people goes by one of these three. Exact counts give themselves
back from exact rates; rounded ones do so to within the base; what is computed from counts with
noise is covered by the noise's epsilon, whatever it is, and nothing else of these people is
published beside it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedaudit.fairness.rounding import Rounder

Counts = NDArray[np.int64]
"""[groups, 4], as in `fedaudit.fairness.counts`."""


@dataclass(frozen=True)
class ExactCounts:
    """Counts are used as they are."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisedCounts:
    """Counts of all attributes with noise, pooled over clients."""

    counts: Mapping[str, Counts]
    """Per attribute; may be negative."""
    deviation: float
    """Standard deviation of the noise on each count, at most."""
    tail: Literal["discrete-laplace", "gaussian"]
    max_rows: int
    """Of one unit: so many rows may be alike."""


@dataclass(frozen=True, eq=False)
class RoundedCounts:
    """Counts are rounded at random, and what is derived otherwise is given in wide steps."""

    rounder: Rounder


PublishedCounts = ExactCounts | RoundedCounts | NoisedCounts


def bounded_counts(
    client_counts: NDArray[np.int64], *, max_rows: int, generator: np.random.Generator
) -> Counts:
    """Counts [groups, 4] over clients [clients, groups, 4] of which at most so many rows count.

    Of a client with more, as many as may count are drawn, every choice of them equally likely,
    whatever they hold and whatever other clients have.
    """
    clients, groups, kinds = client_counts.shape
    flat = client_counts.reshape(clients, groups * kinds)
    within = flat.sum(axis=1) <= max_rows
    total: NDArray[np.int64] = flat[within].sum(axis=0)
    for counts in flat[~within]:
        total = total + generator.multivariate_hypergeometric(
            counts, max_rows, method="marginals"
        ).astype(np.int64)
    return total.reshape(groups, kinds)


def plausible(counts: Counts) -> Counts:
    """Counts with noise as counts that rates can be made of: none below 0."""
    found: Counts = np.maximum(counts, 0)
    return found
