"""Which coins are guessed: the canaries of the highest scores are taken for present, those of the
lowest for absent, as many of each as was decided before the run."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_SHARES = (0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 0.01)


@dataclass(frozen=True)
class GuessPlan:
    """How many canaries are guessed."""

    present: int
    """The highest scores."""
    absent: int
    """The lowest."""

    @property
    def guesses(self) -> int:
        """All of them."""
        return self.present + self.absent

    def correct(self, ordered: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Correct guesses, [...], of coins [..., canaries] in the order of their scores."""
        right = ordered[..., ordered.shape[-1] - self.present :].sum(-1)
        found: NDArray[np.int64] = right + (~ordered[..., : self.absent]).sum(-1)
        return found

    def guessed(self, scores: NDArray[np.float64]) -> NDArray[np.int8]:
        """[canaries]: 1 for present, -1 for absent, 0 for none."""
        order = np.argsort(scores, kind="stable")
        found = np.zeros(len(scores), dtype=np.int8)
        found[order[len(scores) - self.present :]] = 1
        found[order[: self.absent]] = -1
        return found


def by_score(scores: NDArray[np.float64], coins: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The coins [..., canaries] in the order of their scores, the lowest first."""
    order = np.argsort(scores, axis=-1, kind="stable")
    found: NDArray[np.bool_] = np.take_along_axis(coins, order, axis=-1)
    return found


def possible_plans(canaries: int) -> list[GuessPlan]:
    """Plans to choose from before a run: equally many of both, or the highest alone."""
    counts = sorted({int(share * canaries) for share in _SHARES} - {0})
    return [GuessPlan(count, absent) for count in counts for absent in (count, 0)]
