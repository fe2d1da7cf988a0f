"""Experiments whose records have privacy budgets of their own, as one trainer."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from fedaudit.training.base.cell import Cell
from fedaudit.training.base.round_records import FinalResult, PlannedRound, PlayedRounds
from fedaudit.training.base.trainer import Checkpoints
from fedaudit.training.records.personalised_run import PersonalisedRun


class PersonalisedStack:
    """A `Trainer` of cells whose records have budgets of their own, each played by itself."""

    def __init__(
        self, cells: Sequence[Cell], *, device: str = "cpu", checkpoints: Checkpoints | None = None
    ) -> None:
        """Starts the cells, or resumes those that have a checkpoint.

        Raises InvalidInputError where no noise is enough for a cell's budgets, or none of its
        records can be used.
        """
        pairs = zip(cells, checkpoints or [None] * len(cells), strict=True)
        self._runs = [PersonalisedRun(cell, torch.device(device), left) for cell, left in pairs]
        self.n = cells[0].shape.n

    @property
    def active(self) -> list[int]:
        """Positions of the cells that are still running."""
        return [place for place, run in enumerate(self._runs) if run.stopped_by is None]

    # These methods are documented in `Trainer`.

    def plan(self, rounds: int) -> dict[int, list[PlannedRound]]:
        return {position: self._runs[position].plan(rounds) for position in self.active}

    def advance(self, rounds: int) -> dict[int, PlayedRounds]:
        return {position: self._runs[position].advance(rounds) for position in self.active}

    def checkpoint(self, position: int) -> bytes:
        return self._runs[position].state.encode()

    def releases(self, position: int) -> NDArray[np.int32]:
        return self._runs[position].releases()

    def set_release(self, position: int, release: int, *, until: int) -> None:
        progress = self._runs[position].state.progress
        progress.release[0], progress.release_until[0] = release, until

    def charge(self, position: int, subjects: NDArray[np.int32]) -> None:
        self._runs[position].charge(subjects)

    def stop(self, position: int) -> None:
        run = self._runs[position]
        run.stopped_by = run.stopped_by or "cancelled"

    def end_after(self, position: int, round_: int) -> None:
        self._runs[position].end_after(round_)

    def result(self, position: int) -> FinalResult:
        return self._runs[position].result()
