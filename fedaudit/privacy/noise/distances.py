"""Distances of long vectors without temporaries of their length."""

import torch
from torch import Tensor

from fedaudit.reproducible import fixed_order_sum, one_thread

_PART = 1 << 16
SHORT = 256
"""Numbers of a vector up to which the order of its sum is ours, and not the library's."""


def squared_distances(vectors: Tensor, point: Tensor) -> Tensor:
    """Squared Euclidean distances of vectors [m, n] from a point [n]: float64 [m]."""
    total = torch.zeros(len(vectors), dtype=torch.float64, device=vectors.device)
    size = max(1, _PART // max(1, len(vectors)))
    with one_thread():
        for first in range(0, vectors.shape[1], size):
            part = slice(first, first + size)
            apart = (vectors[:, part] - point[part]).double()
            total += sum_of_squares(apart)
    return total


def sum_of_squares(vectors: Tensor) -> Tensor:
    """Along the last axis of vectors, float64 [..., n]."""
    squares = vectors * vectors
    if vectors.shape[-1] > SHORT:
        return squares.sum(-1)
    return fixed_order_sum(squares, -1)
