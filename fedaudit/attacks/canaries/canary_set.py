"""The canaries of an attack: who they are, whose coin let them in, and what they send."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.canaries.directions import Directions, draw_directions
from fedaudit.privacy.accounting.privacy_events import Adjacency
from fedaudit.randomness import Purpose, Source

_HALF = 1 << 31
_SIGNS = 64
BEFORE_THE_CLIP = 16.0
"""Clips that a canary is long before it is clipped, so that the clip is at work too."""


@dataclass(frozen=True, eq=False)
class CanarySet:
    """Arrays [canaries], in the order of clients."""

    coins: NDArray[np.bool_]
    """Whether it is there."""
    sent: NDArray[np.float64]
    """1 where it is there; otherwise 0, as it sends nothing, or -1, as another replaces it."""
    directions: Directions
    release: NDArray[np.int64]
    """Canaries of one number share releases."""
    signs: NDArray[np.float64]
    """[canaries, 64]: by which it turns what it sends, release by release and then again from the
    first, so that noise shows up which hides in some sums of releases."""

    def turns(self, numbers: NDArray[np.int64], seen: NDArray[np.int64]) -> NDArray[np.float64]:
        """[numbers]: the signs of these canaries after so many releases that they might be in."""
        found: NDArray[np.float64] = self.signs[numbers, seen[numbers] % self.signs.shape[1]]
        return found


def draw_canaries(
    release: NDArray[np.int64], *, n: int, adjacency: Adjacency, source: Source
) -> CanarySet:
    """Coins and directions; `release` [canaries] as in `draw_directions`."""
    words = source.words(
        purpose=Purpose.CANARY_COINS, round_=0, counters=np.arange(len(release)), count=1
    )
    coins = words[:, 0] < _HALF
    absent = -1.0 if adjacency == "replace-one" else 0.0
    directions = draw_directions(release, n=n, source=source)
    drawn = source.words(
        purpose=Purpose.CANARY_COINS, round_=1, counters=np.arange(len(release)), count=_SIGNS
    )
    signs = np.where(drawn < _HALF, 1.0, -1.0)
    signs *= signs[:, :1]
    return CanarySet(coins, np.where(coins, 1.0, absent), directions, release, signs)
