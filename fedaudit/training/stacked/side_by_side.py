"""The ordinary way to compute rounds: all clients of all cells at once, on padded lanes."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.training.base.cell import Cell, expected_cohort
from fedaudit.training.base.cohort import Block, rounds_together
from fedaudit.training.base.group_counts import GroupCounter
from fedaudit.training.base.splits import Splits
from fedaudit.training.stacked.client_tensors import StackData
from fedaudit.training.stacked.compiled_clients import compiled_clients
from fedaudit.training.stacked.local_update import whole_data
from fedaudit.training.stacked.round_method import (
    build_draws,
    build_method,
    personal_steps,
    rounds_worth_drawing,
    trims_lanes,
)
from fedaudit.training.stacked.stack_round import Cohort, Learned, RoundResult, collect, learn
from fedaudit.training.stacked.validation import Figures, Measure, Validator


class SideBySide:
    """Plays and scores the rounds of a stack; an `Engine`."""

    def __init__(self, cells: Sequence[Cell], splits: Splits, device: torch.device) -> None:
        self._cells = cells
        self._splits = splits
        self._device = device
        self._longest = cells[0].federation.longest
        self._data = StackData(cells, device, trims=trims_lanes(cells[0]))
        method = build_method(cells, device)
        counter = GroupCounter(self._data.federations, cells[0].spec.fairness)
        measure = Measure(method.network, method.loss, personal_steps(cells[0]))
        self._compiled = compiled_clients(method.network, method.loss, self._data)
        self._whole = whole_data(cells[0].spec.training.local, self._longest)
        self._validator = Validator(measure, self._data, counter, self._compiled)

    def arrange(self, positions: Sequence[int]) -> None:
        """Gets ready for rounds of the cells at `positions`."""
        cells = [self._cells[position] for position in positions]
        self._positions = list(positions)
        self._method = build_method(cells, self._device)
        self._draws = build_draws(cells)

    def rounds_ahead(self, cells: int) -> int:
        """Rounds worth drawing at once for so many cells."""
        method = self._method
        return rounds_worth_drawing(
            method.protection, self._cells[0], n=method.network.n, cells=cells
        )

    def rounds_together(self, cells: int) -> int:
        """Rounds that are played and validated in one go."""
        one = self._cells[0]
        rows = math.ceil(expected_cohort(one)) * self._longest
        return rounds_together(cells=cells, elements=cells * rows * one.federation.width)

    def draw_noise(self, block: Block) -> None:
        """Draws the noise of all rounds of a block, once."""
        self._method.protection.draw_noise(self._draws, block)

    def play(
        self, theta: Tensor, cohorts: Sequence[Cohort], clips: NDArray[np.float64] | None
    ) -> list[RoundResult]:
        """Rounds from hypotheses theta [cells, k, n] on, with the clips of a trusted server."""
        columns = [self._data.columns(cohort.clients, self._positions) for cohort in cohorts]
        learns = self._learner(columns)
        method, played = self._method, []
        for step, cohort in enumerate(cohorts):
            played.append(
                collect(
                    method.protection,
                    method.server,
                    theta,
                    cohort,
                    learns(step, theta, cohort),
                    clips=clips,
                    planted=method.planted,
                )
            )
            theta, clips = played[-1].hypotheses, played[-1].clips
        return played

    def _learner(
        self, columns: Sequence[NDArray[np.int64]]
    ) -> Callable[[int, Tensor, Cohort], Learned]:
        """What clients learn in a step of the rounds whose cohorts lie at these columns."""
        method, compiled = self._method, self._compiled
        if compiled is not None and self._whole and method.weighting is None:
            local = method.local_update
            return lambda step, theta, _: Learned(
                *compiled.learn(theta, columns[step], steps=local.steps, step_size=local.step_size)
            )
        # All of them before the first round: one kind of work at a time stays in the cache.
        lanes, batches = [self._data.lanes(own) for own in columns], self._draws.source(1)
        return lambda step, theta, cohort: learn(
            method, theta, cohort, lanes[step], batches=batches
        )

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
        return self._validator.score(
            theta,
            self._data.columns(clients, positions),
            sizes,
            scored=self._splits.scored(clients, positions, rows=self._longest),
            per_client=per_client,
            tuned=tuned,
        )
