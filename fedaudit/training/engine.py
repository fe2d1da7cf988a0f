"""Compute the rounds of a stack: the interface that a `Stack` uses, and its implementations."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.training.base.cell import Cell, is_client_by_client
from fedaudit.training.base.cohort import Block
from fedaudit.training.base.splits import Splits
from fedaudit.training.one_by_one.client_by_client import ClientByClient
from fedaudit.training.stacked.side_by_side import SideBySide
from fedaudit.training.stacked.stack_round import Cohort, RoundResult
from fedaudit.training.stacked.validation import Figures


class Engine(Protocol):
    """Runs and scores rounds. The result of `play` is valid until the next call."""

    def arrange(self, positions: Sequence[int]) -> None:
        """Prepares for rounds of the cells at `positions`."""

    def rounds_ahead(self, cells: int) -> int:
        """Rounds worth drawing at once for this many cells."""

    def rounds_together(self, cells: int) -> int:
        """Rounds that are run and validated together."""

    def draw_noise(self, block: Block) -> None:
        """Draws the noise of a block's rounds, once, if noise is drawn ahead."""

    def play(
        self, theta: Tensor, cohorts: Sequence[Cohort], clips: NDArray[np.float64] | None
    ) -> list[RoundResult]:
        """Rounds, at most `rounds_together`, starting from hypotheses theta [cells, k, n].

        `clips` [cells]: the norm to which a trusted server clips updates of the first round.
        """

    def score(
        self,
        theta: Tensor,
        clients: NDArray[np.int64],
        positions: Sequence[int],
        sizes: Tensor,
        *,
        per_client: bool = False,
    ) -> Figures:
        """Figures of hypotheses theta [rows, k, n] on validation clients [rows, clients].

        Each row is a round of the cell at its position; `sizes` [rows, k]: uploads in each cluster.
        """


def build_engine(cells: Sequence[Cell], splits: Splits, device: torch.device) -> Engine:
    """Client by client where rows are not padded, side by side otherwise.

    Raises ValueError for several cells of the first kind.
    """
    if is_client_by_client(cells[0]):
        if len(cells) > 1:
            raise ValueError("a cell whose rows are not padded is trained alone, in a stack of one")
        return ClientByClient(cells[0], splits, device)
    return SideBySide(cells, splits, device)
