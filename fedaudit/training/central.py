"""The trusted server of `gaussian-central`: it adds up clipped updates, and noise to the sums.

What depends on who was drawn, on which hypothesis they chose and on how long their updates were
leaves the server through noise only. An update that is not finite adds nothing to any sum, which
nobody is told; its round is charged like every other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.privacy.adaptive_clipping import next_clip, noised_share_within
from fedaudit.privacy.gaussian import CentralGaussian
from fedaudit.spec.privacy import AdaptiveClip

_SMALLEST_CLIP, _LARGEST_CLIP = 1e-12, 1e12
# A noised share farther out than this is nearly all noise, and would throw the clip about.
_SMALLEST_SHARE, _LARGEST_SHARE = -1.0, 2.0


@dataclass(frozen=True)
class Central:
    """What the server does in the rounds of a stack; tensors float64 [cells, 1]."""

    noise_multiplier: Tensor
    """Of the updates alone, where the clip takes part of the whole."""
    denominators: Tensor
    """Clients that fill a block on average, if all blocks were filled alike."""
    expected: float
    """Clients of a round on average: public, and the same for all cells."""
    moves: tuple[AdaptiveClip, ...]
    """How each cell's clip moves; empty where it is a number."""

    def average(self, theta: Tensor, sums: Tensor, noise: Tensor, *, clips: Tensor) -> Tensor:
        """The next hypotheses, float32 [cells, k, n].

        `theta`: those that were sent out; `sums`: clipped updates of those who chose each, added
        up; `noise`: standard normal. All [cells, k, n]; `clips` [cells, 1].
        """
        release = CentralGaussian(
            clip=clips, noise_multiplier=self.noise_multiplier, denominators=self.denominators
        )
        return release(theta, sums, noise)

    def next_clips(
        self,
        clips: NDArray[np.float64],
        *,
        within: Sequence[int],
        taking_part: Sequence[int],
        noise: NDArray[np.float32],
    ) -> NDArray[np.float64]:
        """The clips of the next round, one a cell, between 1e-12 and 1e12.

        `within` of the `taking_part` finite updates had a norm of at most the clip; `noise` is
        standard normal.
        """
        moved = clips.copy()
        for cell, rule in enumerate(self.moves):
            share = noised_share_within(
                within=within[cell],
                taking_part=taking_part[cell],
                noise=float(noise[cell]) * rule.count_noise,
                expected=self.expected,
            )
            clip = next_clip(
                float(clips[cell]),
                share_within=min(max(share, _SMALLEST_SHARE), _LARGEST_SHARE),
                quantile=rule.quantile,
                step_size=rule.step_size,
            )
            moved[cell] = min(max(clip, _SMALLEST_CLIP), _LARGEST_CLIP)
        return moved


def within_clip(updates: Tensor, clip: Tensor) -> Tensor:
    """Whether the norms of updates [..., n] are at most `clip`: bool [...]."""
    norms = torch.linalg.vector_norm(updates, dim=-1, dtype=torch.float64)
    within: Tensor = norms <= clip
    return within
