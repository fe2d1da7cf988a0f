"""Compute the rounds of a stack: the interface that a `Stack` uses, and the ordinary engine."""

import math
import platform
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.native.library import kernels
from fedaudit.training.base.cell import (
    Cell,
    Splits,
    expected_cohort,
    is_by_length,
    is_client_by_client,
    stands_alone,
)
from fedaudit.training.base.cohort import Block, rounds_together
from fedaudit.training.base.scored_rows import GroupCounter
from fedaudit.training.by_length import ByLength
from fedaudit.training.one_by_one import ClientByClient
from fedaudit.training.stacked.clients import StackData, compiled_clients, whole_data
from fedaudit.training.stacked.stack_round import (
    Cohort,
    Learned,
    RoundResult,
    build_draws,
    build_method,
    collect,
    learn,
    personal_steps,
    rounds_worth_drawing,
    trims_lanes,
)
from fedaudit.training.stacked.validation import Figures, Measure, Validator, joined_figures


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


def backend(device: str = "cpu") -> dict[str, str]:
    """The torch build, the device, the processor's vector instructions, and whether the compiled
    kernels or the fallback did what either can."""
    name = platform.machine()
    if torch.device(device).type == "cuda":
        name = torch.cuda.get_device_name(torch.device(device))
    return {
        "torch": torch.__version__,
        "device_type": torch.device(device).type,
        "device_name": name,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "kernels": "fallback" if kernels() is None else "compiled",
    }
