"""How far noise hides which hypothesis a client chose: Theorem 4.2 of Galli et al. between two.

The choice is not sanitised by itself. Where the same update starts from hypothesis i or from j, the
two uploads lie ||theta_i - theta_j|| apart, and with rate epsilon the densities of what the server
receives differ by a factor of at most exp(epsilon * ||theta_i - theta_j||). Where updates are
clipped to c, the uploads of any two datasets that choose i and j lie at most 2c further apart.

With noise for each of several parts of the vector (layers), the exponents of the parts add up.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

MAX_LISTED = 6
"""Hypotheses up to which every pair is listed."""
MIN_RELEASES = 5
"""With fewer releases a median would nearly reveal the norm of one client's update."""


def listed_pairs(distances: NDArray[np.float64]) -> list[tuple[int, int]]:
    """The pairs that are reported, from distances [k, k]: all, or the nearest and the farthest."""
    pairs = list(combinations(range(len(distances)), 2))
    if len(distances) <= MAX_LISTED:
        return pairs
    ordered = sorted(pairs, key=lambda pair: float(distances[pair]))
    return [ordered[0], ordered[-1]]


def part_distances(hypotheses: NDArray[np.float32], *, parts: Sequence[int]) -> NDArray[np.float64]:
    """Euclidean distances between hypotheses [k, n] within each part: [k, k, parts].

    `parts`: how many parameters each has, in the vector's order. Raises ValueError where they do
    not add up to n.
    """
    k, n = hypotheses.shape
    if sum(parts) != n:
        raise ValueError(f"parts of {sum(parts)} parameters in all cannot make up {n}")
    found = np.zeros((k, k, len(parts)))
    edges = np.cumsum(parts)[:-1]
    for i, j in combinations(range(k), 2):
        # Pair by pair: all at once would be k times as large as the hypotheses.
        apart = hypotheses[i].astype(np.float64) - hypotheses[j]
        norms = [float(np.linalg.norm(piece)) for piece in np.split(apart, edges)]
        found[i, j] = found[j, i] = norms
    return found


def exponents(rates: NDArray[np.float64], distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """epsilon * distance, added up over the parts: [releases].

    `rates` [releases, parts], `distances` [parts].
    """
    return np.asarray(rates @ distances, dtype=np.float64)


def clipped_reach(rates: NDArray[np.float64], *, clip: float) -> NDArray[np.float64]:
    """What two clipped updates add to the exponent at most: [releases].

    They lie 2c apart as a whole, so by Cauchy and Schwarz their distances within the parts, each
    times its rate, add up to at most 2c times the norm of the rates [releases, parts].
    """
    return np.asarray(2 * clip * np.linalg.norm(rates, axis=1), dtype=np.float64)
