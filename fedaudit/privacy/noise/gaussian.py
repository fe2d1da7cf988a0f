"""The Gaussian mechanism: vectors of Euclidean norm at most `clip`, plus normal noise.

Adding or removing one vector moves a sum of clipped ones by at most `clip`, and every component
gets noise of standard deviation `noise_multiplier * clip`. Noise is drawn with standard deviation
1 and scaled where it is added. All of that is float64, and what has its noise is rounded once, onto
the grid of `privacy.noise.grid`.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fedaudit.privacy.noise.grid import grid_spacing, round_to_grid

# Vectors above this share of the clip are cut to it: products of float32 may round upwards by
# 2^-24, and sums of many vectors in float64 by less than what then is still left.
_SHORTENED = 1 - 2.0**-20


def clip_to_norm(vectors: Tensor, *, clip: Tensor | float) -> tuple[Tensor, Tensor]:
    """Vectors [..., n] scaled to norms of at most `clip`, and whether each was finite.

    Norms and products are float64, the result float32. `clip` is a number, or a float64 tensor
    that broadcasts to [...]. A vector that is not finite has no norm to be scaled by: it becomes
    zero and its flag, bool [...], False.
    """
    norms = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.float64)
    finite = norms.isfinite()
    shrunk = (clip * _SHORTENED / norms).clamp_(max=1.0)
    clipped = (vectors * shrunk[..., None]).float()
    return torch.where(finite[..., None], clipped, 0.0), finite


@dataclass(frozen=True)
class LocalGaussian:
    """Each client clips its own update and adds the noise itself; tensors float64 [cells, 1]."""

    clip: Tensor
    noise_multiplier: Tensor

    @cached_property
    def deviation(self) -> Tensor:
        """Of the noise on every component: float64 [cells, 1, 1]."""
        return (self.noise_multiplier * self.clip)[..., None]

    @cached_property
    def spacing(self) -> Tensor:
        """Of the grid that uploads lie on: float64 [cells, 1, 1]."""
        return grid_spacing(self.deviation)

    def __call__(self, start: Tensor, updated: Tensor, unit_noise: Tensor) -> tuple[Tensor, Tensor]:
        """What leaves the clients, float32, and which uploads are released, bool [cells, clients].

        `start`, `updated`: float32, `unit_noise`: float64, all [cells, clients, n]. An update that
        is not finite is withheld: its upload holds the start and noise alone.
        """
        clipped, finite = clip_to_norm(updated - start, clip=self.clip)
        # The start comes last: next to large parameters an update would be rounded while it is
        # still bare, and two could end up farther apart than two clips.
        noised = (unit_noise * self.deviation).add_(clipped).add_(start)
        return round_to_grid(noised, self.spacing).float(), finite


@dataclass(frozen=True)
class CentralGaussian:
    """The server adds noise to the sum of clipped updates; tensors float64 [cells, 1].

    With k hypotheses a client's message is a vector of k * n numbers, zero but for the block of the
    hypothesis that it chose itself. Its norm is that of the one update, so the sensitivity stays
    `clip`, and noise goes on all k blocks, those that nobody chose included.
    """

    clip: Tensor
    noise_multiplier: Tensor
    denominators: Tensor
    """[cells, 1] or [cells, k]: public constants, such as the expected number of clients over k.
    The number of those who chose a hypothesis is as secret as their updates."""

    def __call__(self, theta: Tensor, sums: Tensor, unit_noise: Tensor) -> Tensor:
        """The next hypotheses, float32 [cells, k, n].

        `theta`, float32: those that were sent out; `sums`: the clipped updates of those who chose
        each, added up; `unit_noise`, both float64; all [cells, k, n].
        """
        deviation = (self.noise_multiplier * self.clip)[..., None]
        noised = (unit_noise * deviation).add_(sums)
        round_to_grid(noised, grid_spacing(deviation))
        return noised.div_(self.denominators[..., None]).add_(theta).float()
