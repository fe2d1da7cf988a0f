"""Poisson sampling of records, each with its own probability of inclusion. No torch.

Every record tosses its own coin in every step, so a batch may be empty; it still gets noise and
still counts (Mironov, Talwar and Zhang, "Renyi differential privacy of the sampled Gaussian
mechanism", 2019). A coin depends on the seed, the silo, the step and the record's index in its
silo: not on other records, on padding, or on who else takes part.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.randomness import Purpose, Source

_WORDS = 2.0**32


def tossed_coins(
    source: Source, *, steps: ArrayLike, silos: ArrayLike, inclusion: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which records take part: bool [..., rows] over broadcast(seeds, steps, silos).

    `steps` are numbers that a run never uses twice, such as (round - 1) * steps a round + step;
    `inclusion` [..., rows] the probabilities, 0 for padding. A probability is rounded down to a
    multiple of 2**-32, so that no record takes part more often than it was charged for. Raises
    ValueError where one is not within 0 and 1.
    """
    if not np.all((inclusion >= 0) & (inclusion <= 1)):
        raise ValueError("probabilities of inclusion must lie between 0 and 1")
    words = source.words(
        purpose=Purpose.RECORDS, round_=steps, counters=silos, count=inclusion.shape[-1]
    )
    return words < np.floor(inclusion * _WORDS).astype(np.uint64)


def sampled_rows(taken: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows that take part, in front: rows [..., width] and how many they are, [...].

    `taken` [..., rows]. Rows ascend; `width` is the size of the largest batch. Rows beyond a size
    are 0.
    """
    sizes = taken.sum(-1)
    width = int(sizes.max(initial=0))
    rows = np.zeros((*sizes.shape, width), dtype=np.int64)
    rows[np.arange(width) < sizes[..., None]] = np.nonzero(taken)[-1]
    return rows, sizes
