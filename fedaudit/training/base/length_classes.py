"""Clients by how many rows they have, so that those of one class can be padded to its longest."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SHORT_ROWS = 64
"""Clients with at most so many rows are not told apart: each class costs some small operations."""


@dataclass(frozen=True, eq=False)
class LengthClass:
    """Clients that are padded to the same number of rows."""

    clients: NDArray[np.int64]
    """Indices in the federation, ascending."""
    rows: int
    """Of the longest of them."""


def are_even(counts: NDArray[np.int64]) -> bool:
    """Whether clients with these numbers of rows [clients] can all be padded to the longest: they
    are short, or padding makes at most twice as many rows of theirs."""
    longest = int(counts.max())
    return longest <= _SHORT_ROWS or longest * len(counts) <= 2 * int(counts.sum())


def length_classes(counts: NDArray[np.int64]) -> list[LengthClass]:
    """Classes of clients with these numbers of rows [clients], the longest clients first.

    Even clients are of one class (`are_even`). Otherwise those with more than half as many rows as
    the longest are a class, and so on. So no more than twice as many rows are computed as there
    are, but for the short clients.
    """
    order = np.argsort(-counts, kind="stable")
    found = []
    while len(order):
        lengths = counts[order]
        longest, size = int(lengths[0]), len(order)
        if not are_even(lengths):
            size = int(np.count_nonzero(2 * lengths > longest))
        found.append(LengthClass(np.sort(order[:size]), longest))
        order = order[size:]
    return found


def class_rows(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of the longest client of each client's class: [clients]."""
    found = np.zeros(len(counts), dtype=np.int64)
    for one in length_classes(counts):
        found[one.clients] = one.rows
    return found
