"""Random words by the compiled kernels."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.native.library import kernels, line, place_of


def philox(
    seeds: NDArray[np.uint64],
    rounds: NDArray[np.uint64],
    clients: NDArray[np.uint64],
    *,
    purpose: int,
    blocks: int,
) -> NDArray[np.uint32] | None:
    """Words of Philox4x32-10: uint32 [rows, 4 * blocks] of seeds, rounds and clients [rows]; None
    without kernels."""
    library = kernels()
    if library is None:
        return None
    words = np.empty((len(seeds), 4 * blocks), dtype=np.uint32)
    keys = [line(part, np.uint64) for part in (seeds, rounds, clients)]
    library.fedaudit_philox(
        *(place_of(part) for part in keys), purpose, len(seeds), blocks, place_of(words)
    )
    return words


def aes(
    seeds: NDArray[np.uint64],
    rounds: NDArray[np.uint64],
    clients: NDArray[np.uint64],
    *,
    purpose: int,
    blocks: int,
) -> NDArray[np.uint64] | None:
    """Words of AES-128 over the same counters: uint64 [rows, 2 * blocks]; None without kernels,
    and where the processor has no instructions for it."""
    library = kernels()
    if library is None:
        return None
    words = np.empty((len(seeds), 2 * blocks), dtype=np.uint64)
    keys = [line(part, np.uint64) for part in (seeds, rounds, clients)]
    made = library.fedaudit_aes(
        *(place_of(part) for part in keys), purpose, len(seeds), blocks, place_of(words)
    )
    return words if made else None


def distinct(words: NDArray[np.uint32], *, population: int, count: int) -> NDArray[np.int64] | None:
    """Of pairs of words [..., 2 * draws] as numbers below `population`, the first `count` distinct
    of each row, ascending: int64 [..., count].

    None without kernels, and where a row has fewer.
    """
    library = kernels()
    if library is None:
        return None
    pairs = line(words, np.uint32)
    numbers = np.empty((*words.shape[:-1], count), dtype=np.int64)
    seen = np.zeros(-(-population // 64), dtype=np.uint64)
    rows, draws = numbers.size // max(1, count), words.shape[-1] // 2
    found = library.fedaudit_distinct(
        place_of(pairs), rows, draws, population, count, place_of(seen), place_of(numbers)
    )
    return numbers if found else None
