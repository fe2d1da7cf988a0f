"""Compute the rounds of a stack: the interface that a `Stack` uses, and its implementations."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.training.base.cell import Cell, is_by_length, is_client_by_client, stands_alone
from fedaudit.training.base.cohort import Block
from fedaudit.training.base.splits import Splits
from fedaudit.training.by_length.by_length import ByLength
from fedaudit.training.one_by_one.client_by_client import ClientByClient
from fedaudit.training.stacked.side_by_side import SideBySide
from fedaudit.training.stacked.stack_round import Cohort, RoundResult
from fedaudit.training.stacked.validation import Figures, joined_figures


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
        tuned: bool = True,
    ) -> Figures:
        """Figures of hypotheses theta [rows, k, n] on validation clients [rows, clients].

        Each row is a round of the cell at its position; `sizes` [rows, k]: uploads in each cluster.
        `tuned` as in `Measure`.
        """


def score_rounds(
    engine: Engine,
    theta: Tensor,
    clients: NDArray[np.int64],
    positions: Sequence[int],
    sizes: Tensor,
    *,
    by_client: bool,
) -> Figures:
    """`Engine.score` of several rounds, counted over all clients of a round or by client.

    By client an engine counts one round at a time.
    """
    if not by_client:
        return engine.score(theta, clients, positions, sizes)
    rows = [slice(row, row + 1) for row in range(len(positions))]
    return joined_figures(
        [
            engine.score(theta[row], clients[row], positions[row], sizes[row], per_client=True)
            for row in rows
        ]
    )


def build_engine(cells: Sequence[Cell], splits: Splits, device: torch.device) -> Engine:
    """Client by client where rows are wide, by length where they are uneven, otherwise side by
    side.

    Raises ValueError for several cells of the first two kinds.
    """
    if len(cells) > 1 and stands_alone(cells[0]):
        raise ValueError("a cell whose clients are not side by side is trained in a stack of one")
    if is_client_by_client(cells[0]):
        return ClientByClient(cells[0], splits, device)
    if is_by_length(cells[0]):
        return ByLength(cells[0], splits, device)
    return SideBySide(cells, splits, device)
