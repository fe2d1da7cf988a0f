"""Interface between the code that runs experiments and the trainers. No torch."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedaudit.training.base.round_records import FinalResult, PlannedRound, PlayedRounds


class Trainer(Protocol):
    """Trains cells round by round; a cell is identified by its position among them."""

    n: int
    """Parameters of the network."""

    @property
    def active(self) -> list[int]:
        """Positions of the cells that are still running."""

    def plan(self, rounds: int) -> dict[int, list[PlannedRound]]:
        """The next rounds of every active cell, at most `rounds`, before their noise is drawn.

        With `release` noise the spending of these rounds must be on record before `advance`.
        """

    def advance(self, rounds: int) -> dict[int, PlayedRounds]:
        """Runs up to `rounds` more rounds of every active cell.

        With `release` noise it stops where the plan ends; raises RuntimeError without a plan.
        """

    def checkpoint(self, position: int) -> bytes:
        """The checkpoint of the cell at `position`; the same for the same state."""

    def releases(self, position: int) -> NDArray[np.int32]:
        """Releases of each of the ledger's subjects so far: int32 [subjects]."""

    def set_release(self, position: int, release: int, *, until: int) -> None:
        """Rounds up to `until` repeat rounds already charged: they carry this release number."""

    def charge(self, position: int, subjects: NDArray[np.int32]) -> None:
        """Charges subjects for a round whose noise was drawn and whose result was lost."""

    def stop(self, position: int) -> None:
        """Removes a cell before its end."""

    def end_after(self, position: int, round_: int) -> None:
        """The cell ends with this round at the latest, or now where it is beyond it: an audit
        beside it has found its noise too small."""

    def result(self, position: int) -> FinalResult:
        """The result of the finished run at `position`."""


Checkpoints = Sequence[bytes | None]
"""The checkpoint of each cell; None to start from the beginning."""
