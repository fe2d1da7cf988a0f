"""How the server brings weighted uploads together (Li et al. 2020, Algorithm 2)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedaudit.training.methods.training_method import LossWeighting
from fedaudit.training.stacked.block_sums import block_sums
from fedaudit.training.stacked.clustering import Clusters


@dataclass(frozen=True)
class WeightedServer:
    """Adds up what clients sent, and divides by the sum of the numbers behind it."""

    weighting: LossWeighting

    def __call__(self, theta: Tensor, uploads: Tensor, present: Tensor, chosen: Tensor) -> Clusters:
        """The next model of theta [cells, 1, n]; `uploads` [cells, clients, n + 1], `present` bool
        and `chosen` int64 [cells, clients]."""
        weighted = self.weighting.weighted(uploads, present)
        sums = block_sums(weighted, present, chosen, hypotheses=1)
        return Clusters(
            hypotheses=self.weighting.step(theta, sums),
            assigned=torch.zeros_like(chosen),
            sizes=present.sum(-1, keepdim=True),
        )
