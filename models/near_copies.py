"""How many rows two tables share, estimated from the smallest hashes of each.

A bottom-k sketch (Broder 1997): of the k smallest hashes of both tables together, the share that
both have estimates the share of distinct rows that both have (the Jaccard index), with a standard
error of at most 1 / (2 sqrt(k)): 3 points. Distinct rows are counted: tables whose columns allow
few different rows look alike.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SKETCHED = 256
"""k: the hashes that are kept of a table."""
NEAR = 0.9
"""The share of a table's rows from which it is a near-copy of another."""
HASH_BITS = 63


@dataclass(frozen=True, eq=False)
class Sketch:
    """A table's smallest hashes, ascending and distinct, as int64; and how many distinct rows it
    has, estimated where it has more than SKETCHED."""

    hashes: NDArray[np.int64]
    rows: int

    @classmethod
    def of(cls, hashes: NDArray[np.int64]) -> "Sketch":
        """From the hashes of all rows, or from the smallest SKETCHED distinct ones of them."""
        kept = np.unique(hashes)[:SKETCHED]
        if len(kept) < SKETCHED:
            return cls(kept, len(kept))
        return cls(kept, round((SKETCHED - 1) / (float(kept[-1]) / 2.0**HASH_BITS)))


def shared_rows(one: Sketch, other: Sketch) -> tuple[float, float]:
    """The shares of the rows of each that are rows of the other, between 0 and 1."""
    smallest = np.union1d(one.hashes, other.hashes)[:SKETCHED]
    if not smallest.size:
        return 0.0, 0.0
    both = np.intersect1d(one.hashes, other.hashes, assume_unique=True)
    jaccard = float(np.isin(smallest, both, assume_unique=True).mean())
    shared = jaccard / (1.0 + jaccard) * (one.rows + other.rows)
    return min(1.0, shared / max(one.rows, 1)), min(1.0, shared / max(other.rows, 1))
