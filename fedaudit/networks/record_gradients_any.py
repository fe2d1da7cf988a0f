"""Clipped per-record gradients of any differentiable network, by `vmap` of `grad` in chunks.

For convolutional networks, and the oracle of the forms written by hand.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from fedaudit.networks.record_gradients import (
    RecordBatch,
    aligned,
    all_finite,
    shares,
    vector_norms,
)

LossOfRecord = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The loss of one record from parameters [n], its features and its target: a scalar."""

_CHUNK_ELEMENTS = 1 << 24
"""Numbers of the per-record gradients that are held at once."""


class AnyNetworkClippedGradients:
    """One silo at a time, on the records of its own batch alone."""

    def __init__(self, record_loss: LossOfRecord, *, n: int, held: int | None = None) -> None:
        """`held`: numbers that are held for a record; those of its gradient by default."""
        self.n = n
        self._gradients = torch.func.vmap(torch.func.grad(record_loss), in_dims=(None, 0, 0))
        self._chunk = max(1, _CHUNK_ELEMENTS // (held or n))

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        """Sums [silos, n]; see `per_record.ClippedGradients`."""
        own = theta.expand(len(batch.sizes), self.n)
        sums = torch.zeros(own.shape, device=theta.device, dtype=torch.float64)
        for silo, size in enumerate(batch.sizes.tolist()):
            for begin in range(0, size, self._chunk):
                rows = slice(begin, min(begin + self._chunk, size))
                features, target = aligned(batch.features[silo, rows]), batch.target[silo, rows]
                sums[silo] += self._clipped_sum(aligned(own[silo]), features, target, clip=clip)
        return sums

    def _clipped_sum(
        self, theta: Tensor, features: Tensor, target: Tensor, *, clip: float
    ) -> Tensor:
        """The sum, float64 [n], over the records of a chunk."""
        # The network may compute in reduced precision; norms of its gradients may not.
        gradients: Tensor = self._gradients(theta, features, target).float()
        norms = vector_norms(gradients)
        if not all_finite(norms):
            gradients = torch.where(norms.isfinite()[:, None], gradients, 0.0)
        clipped = gradients * shares(norms, clip=clip).float()[:, None]
        return clipped.sum(0, dtype=torch.float64)
