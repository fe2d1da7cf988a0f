"""Distances of long vectors without temporaries of their length."""

import torch
from torch import Tensor

from fedaudit.one_thread import one_thread

_PART = 1 << 16


def squared_distances(vectors: Tensor, point: Tensor) -> Tensor:
    """Squared Euclidean distances of vectors [m, n] from a point [n]: float64 [m]."""
    total = torch.zeros(len(vectors), dtype=torch.float64, device=vectors.device)
    size = max(1, _PART // max(1, len(vectors)))
    with one_thread():
        for first in range(0, vectors.shape[1], size):
            part = slice(first, first + size)
            apart = (vectors[:, part] - point[part]).double()
            total += (apart * apart).sum(-1)
    return total
