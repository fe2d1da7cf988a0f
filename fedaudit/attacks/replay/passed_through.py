"""What passed through a mechanism while one cell was trained, round by round."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.randomness import Source
from fedaudit.training.base.cohort import Draws
from fedaudit.training.mechanisms.base import ClientProtection, TrustedServer

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class UploadsPassed:
    """Uploads that clients protected together; tensors and arrays [clients, n]."""

    clients: NDArray[np.int64] | None
    """[clients]; None where the protection was not told, and the cohort has it."""
    start: Tensor
    updated: Tensor
    bare: Tensor | None
    """What would have left without noise; None where noise cannot be left out."""
    uploads: Tensor
    radii: Tensor | None
    """float64 [clients], or [clients, layers]."""
    finite: Tensor
    noise: Floats | None
    """Unscaled, as the protection was given it."""


@dataclass(eq=False)
class SumPassed:
    """A round of a trusted server."""

    updates: list[Tensor] = field(default_factory=list)
    """[clients, n] each, as the server was given them."""
    clips: list[Tensor] = field(default_factory=list)
    """What each was clipped to."""
    clipped: list[Tensor] = field(default_factory=list)
    theta: Tensor | None = None
    """[k, n]."""
    sums: Tensor | None = None
    """[k, n]; None where the round added up nothing."""
    noise: Floats | None = None
    """Unscaled, [k, n], as the server was given it."""
    clip: float = float("nan")
    released: Tensor | None = None
    """[k, n]."""
    within: int | None = None
    taking_part: int | None = None
    count_noise: float | None = None
    """Unscaled."""
    next_clip: float | None = None


@dataclass(eq=False)
class StepsPassed:
    """The local steps of some silos in one round; lists have an item for each step."""

    silos: NDArray[np.int64]
    inclusion: Floats
    """[silos, rows]."""
    clip: float
    normaliser: float
    sums: list[Tensor] = field(default_factory=list)
    """float64 [silos, n], of clipped gradients."""
    clips: list[float] = field(default_factory=list)
    single_norms: list[Floats] = field(default_factory=list)
    """Of the contributions of records one by one, in the steps where these were looked at."""
    gradients: list[Tensor] = field(default_factory=list)
    """float32 [silos, n], as the optimiser was given them."""
    taken: list[NDArray[np.bool_]] = field(default_factory=list)
    """[silos, rows]."""
    unit_noise: list[Floats] = field(default_factory=list)
    """Normal numbers that the source was asked for, [silos, n]."""


@dataclass(frozen=True, eq=False)
class BlockPassed:
    """Rounds whose noise was drawn together."""

    rounds: NDArray[np.int64]
    """[rounds]."""
    cohort: NDArray[np.int64]
    """[rounds, clients]."""
    drawn: NDArray[np.bool_] | None
    noise: Floats | None
    """[rounds, vectors, n]."""


@dataclass(eq=False)
class PassedThrough:
    """Everything, by round."""

    round: int = 0
    """The round that is being played."""
    uploads: dict[int, list[UploadsPassed]] = field(default_factory=lambda: defaultdict(list))
    sums: dict[int, SumPassed] = field(default_factory=lambda: defaultdict(SumPassed))
    steps: dict[int, list[StepsPassed]] = field(default_factory=lambda: defaultdict(list))
    blocks: list[BlockPassed] = field(default_factory=list)
    silent: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    """[clients], by round: uploads for which the ledger charges nobody. A run that follows this one
    sends something else there, which nobody may notice."""
    draws: Draws | None = None
    source: Source | None = None
    """What noise was drawn from: by the mechanism itself, or step by step."""
    protection: ClientProtection | TrustedServer | None = None
    """The one that was looked at, to draw from again."""

    def drawn_noise(self, round_: int) -> Floats | None:
        """What was drawn ahead for a round: [vectors, n]."""
        for block in self.blocks:
            place = np.flatnonzero(block.rounds == round_)
            if len(place) and block.noise is not None:
                noise: Floats = block.noise[place[0]]
                return noise
        return None

    def cohort(self, round_: int) -> NDArray[np.int64] | None:
        """Who was drawn for a round, by the block that it was drawn with."""
        for block in self.blocks:
            place = np.flatnonzero(block.rounds == round_)
            if len(place):
                row: NDArray[np.int64] = block.cohort[place[0]]
                return row if block.drawn is None else row[block.drawn[place[0]]]
        return None
