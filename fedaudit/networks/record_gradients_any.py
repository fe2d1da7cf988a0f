"""Clipped per-record gradients of any differentiable network, one record after the other.

For convolutional networks, and the oracle of the forms written by hand. A batch would take half the
time or less; but libraries round a record's numbers in it by who is beside it, so that one record
would move the gradients of others, by an amount that nothing bounds.
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


class AnyNetworkClippedGradients:
    """One silo at a time, on the records of its own batch alone."""

    def __init__(self, record_loss: LossOfRecord, *, n: int) -> None:
        self.n = n
        self._gradient = torch.func.grad(record_loss)

    def __call__(self, theta: Tensor, batch: RecordBatch, *, clip: float) -> Tensor:
        """Sums [silos, n]; see `record_gradients.ClippedGradients`."""
        own = theta.expand(len(batch.sizes), self.n)
        sums = torch.zeros(own.shape, device=theta.device, dtype=torch.float64)
        for silo, size in enumerate(batch.sizes.tolist()):
            model = aligned(own[silo])
            for row in range(size):
                features, target = aligned(batch.features[silo, row]), batch.target[silo, row]
                sums[silo] += self._clipped(model, features, target, clip=clip)
        return sums

    def _clipped(self, theta: Tensor, features: Tensor, target: Tensor, *, clip: float) -> Tensor:
        """What one record contributes, [n]."""
        # The network may compute in reduced precision; norms of its gradients may not.
        gradient: Tensor = self._gradient(theta, features, target).float()
        norm = vector_norms(gradient)
        if not all_finite(norm):
            return torch.zeros_like(gradient)
        return gradient * shares(norm, clip=clip).float()
