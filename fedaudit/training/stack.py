"""Experiments of one shape, trained side by side.

A stack of one is the ordinary case. Whatever a cell is stacked with, however its rounds are cut
into calls, and wherever it was resumed, its numbers are the same (simulation noise).
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.training.cell import Cell, stack_key
from fedaudit.training.cohort import Block, draw_block, draw_noise, rounds_ahead
from fedaudit.training.data import Lanes, StackData
from fedaudit.training.evaluation import Evaluation, evaluate
from fedaudit.training.group_counts import GroupCounter
from fedaudit.training.method import build_draws, build_method
from fedaudit.training.observation import Figures, figures_of, record_round
from fedaudit.training.records import FinalResult, PlannedRound, RoundRecord
from fedaudit.training.rounds import Cohort, Played, play_round
from fedaudit.training.state import CellState, first_state, participation_cap


class Stack:
    """Trains cells round by round and answers with what each round left behind."""

    def __init__(
        self,
        cells: Sequence[Cell],
        *,
        device: str = "cpu",
        checkpoints: Sequence[bytes | None] | None = None,
    ) -> None:
        """Starts the cells, or resumes those that have a checkpoint.

        Raises ValueError where the cells cannot be stacked (`stack_key`).
        """
        if len({stack_key(cell) for cell in cells}) != 1:
            raise ValueError("a stack needs one or more cells of one shape")
        self._cells = list(cells)
        self._device = torch.device(device)
        self._states = [
            first_state(cell) if checkpoint is None else CellState.decode(checkpoint)
            for cell, checkpoint in zip(
                cells, checkpoints or [None] * len(self._cells), strict=True
            )
        ]
        self._caps = [participation_cap(cell) for cell in cells]
        self._stopped: dict[int, str] = {}
        self._data = StackData(cells, self._device)
        self._counter = GroupCounter(self._data, cells[0].spec.fairness)
        self.n = cells[0].shape.n
        self._secret = cells[0].spec.privacy.noise == "release"
        self._running: list[int] = []
        for position in range(len(self._cells)):
            self._check_stop(position)
        self._arrange()

    @property
    def active(self) -> list[int]:
        """Positions of the cells that are still running."""
        return [
            position for position in range(len(self._cells)) if position not in self._stopped
        ]

    # -- rounds ---------------------------------------------------------------------------------

    def plan(self, rounds: int) -> dict[int, list[PlannedRound]]:
        """The next rounds of every active cell, at most `rounds`, before their noise is drawn.

        With `release` noise the spending of these rounds must be on record before `advance`.
        """
        block = self._block_of(rounds)
        planned: dict[int, list[PlannedRound]] = {}
        for row, position in enumerate(self._running):
            if position in self._stopped:
                continue
            state, taken = self._states[position], self._states[position].taken.copy()
            steps = range(block.position, block.position + min(rounds, block.left))
            planned[position] = [
                PlannedRound(
                    round=number,
                    release=state.release if number <= state.release_until else 0,
                    subjects=self._charge_within_cap(position, taken, block.cohort[step, row]),
                )
                for step in steps
                if (number := int(block.rounds[step, row])) <= self._last_round(position)
            ]
        return planned

    def advance(self, rounds: int) -> dict[int, list[RoundRecord]]:
        """Plays up to `rounds` more rounds of every active cell.

        With `release` noise it stops where the plan ends; RuntimeError without a plan.
        """
        records: dict[int, list[RoundRecord]] = {position: [] for position in self.active}
        with torch.no_grad():
            for _ in range(rounds):
                if not self.active:
                    break
                if self._block is None or self._block.left == 0:
                    if self._secret:
                        if any(records.values()):
                            break
                        raise RuntimeError("rounds with `release` noise must be planned first")
                    self._block = None
                block = self._block_of(self._ahead())
                if block.noise is None and self._method.sanitise is not None:
                    draw_noise(self._draws, block, n=self.n)
                for position, record in self._play(block).items():
                    records[position].append(record)
        return records

    def _play(self, block: Block) -> dict[int, RoundRecord]:
        step = block.position
        block.position += 1
        clients = block.cohort[step]
        allowed = np.ones(clients.shape, dtype=np.bool_)
        for row, position in enumerate(self._running):
            cap = self._caps[position]
            if cap is not None:
                allowed[row] = self._states[position].taken[clients[row]] < cap
        noise = None
        if block.noise is not None:
            noise = torch.from_numpy(block.noise[step]).to(self._device)
        cohort = Cohort(
            rounds=block.rounds[step],
            clients=clients,
            allowed=allowed,
            lanes=self._data.lanes(self._data.index(clients, self._running)),
            noise=noise,
        )
        played = play_round(self._method, self._theta, cohort, self._draws.source(1))
        self._theta = played.clusters.hypotheses
        evaluation = self._evaluate(block, step, played)
        return self._keep(cohort, played, evaluation)

    def _keep(
        self, cohort: Cohort, played: Played, figures: Figures | None
    ) -> dict[int, RoundRecord]:
        """Moves the cells' states on and records the round of those still running."""
        records: dict[int, RoundRecord] = {}
        drawn = record_round(cohort, played)
        for row, position in enumerate(self._running):
            if position in self._stopped:
                continue
            state = self._states[position]
            number = int(cohort.rounds[row])
            validated = figures is not None and self._validates(position, number)
            records[position] = drawn.record(
                row,
                state,
                release=state.release if number <= state.release_until else 0,
                figures=figures if validated else None,
            )
            state.round = number
            state.collapsed_rounds += records[position].collapsed
            loss = records[position].selection_loss
            if loss is not None:
                self._observe(position, row, loss, records[position].cluster_sizes)
            self._check_stop(position)
        return records

    def _observe(
        self, position: int, row: int, loss: float, sizes: tuple[int, ...]
    ) -> None:
        state = self._states[position]
        state.without_improvement += 1
        if loss < state.best_loss:
            state.best_loss, state.best_round = loss, state.round
            state.best_hypotheses = self._theta[row].cpu().numpy().copy()
            state.best_sizes = np.array(sizes, dtype=np.int64)
            state.without_improvement = 0
        if not np.isfinite(loss):
            self._stopped[position] = "diverged"

    # -- evaluation -----------------------------------------------------------------------------

    def _validates(self, position: int, number: int) -> bool:
        every = self._cells[position].spec.training.stopping.validate_every
        return number % every == 0 or number == self._last_round(position)

    def _evaluate(self, block: Block, step: int, played: Played) -> Figures | None:
        due = [
            self._validates(position, int(block.rounds[step, row]))
            for row, position in enumerate(self._running)
        ]
        if not any(due):
            return None
        if block.validation is None:
            index, lanes = self._all_validation()
        else:
            index = self._data.index(block.validation[step], self._running)
            lanes = self._data.lanes(index)
        evaluation = self._score(self._theta, lanes, played.clusters.sizes)
        return figures_of(evaluation, self._counter.count(evaluation.predictions, index))

    def _score(self, theta: Tensor, lanes: Lanes, sizes: Tensor) -> Evaluation:
        largest = sizes.argmax(-1)
        return evaluate(self._method.network, theta, lanes, self._method.loss, largest)

    def _all_validation(self) -> tuple[Tensor, Lanes]:
        """Every validation client of the running cells; the same in each round."""
        if self._validation is None:
            clients = self._data.validation[self._running]
            index = self._data.index(clients, self._running)
            self._validation = index, self._data.lanes(index)
        return self._validation

    def result(self, position: int) -> FinalResult:
        """What the finished run at `position` amounts to, at its best hypotheses."""
        state = self._states[position]
        theta = torch.from_numpy(state.best_hypotheses)[None].to(self._device)
        index = self._data.index(self._data.validation[[position]], [position])
        lanes = self._data.lanes(index)
        with torch.no_grad():
            sizes = torch.from_numpy(state.best_sizes)[None].to(self._device)
            evaluation = self._score(theta, lanes, sizes)
            counts = self._counter.count(evaluation.predictions, index, per_client=True)
        figures = figures_of(evaluation, {})
        return FinalResult(
            stopped_by=self._stopped.get(position, "running"),
            rounds=state.round,
            best_round=state.best_round,
            hypotheses=state.best_hypotheses.copy(),
            selection_loss=float(figures.selection_loss[0]),
            validation_loss=float(figures.validation_loss[0]),
            accuracy=None if figures.accuracy is None else float(figures.accuracy[0]),
            fairness={name: count[0] for name, count in counts.items()},
            single_row_clients=int((lanes.count == 1).sum()),
            collapsed_rounds=state.collapsed_rounds,
        )

    # -- state ----------------------------------------------------------------------------------

    def checkpoint(self, position: int) -> bytes:
        """Everything needed to go on with the cell at `position`; the same for the same state."""
        self._store_hypotheses()
        return self._states[position].encode()

    def releases(self, position: int) -> NDArray[np.int32]:
        """Releases of each client of the cell's federation so far: int32 [clients]."""
        return self._states[position].releases.copy()

    def set_release(self, position: int, release: int, *, until: int) -> None:
        """Rounds up to `until` repeat rounds already charged: they carry this release number."""
        self._states[position].release = release
        self._states[position].release_until = until

    def charge(self, position: int, subjects: NDArray[np.int32]) -> None:
        """Charges clients for a round whose noise was drawn and whose result was lost."""
        state = self._states[position]
        state.releases[subjects] += 1
        state.taken[subjects] += 1

    def stop(self, position: int) -> None:
        """Takes a cell out before its end."""
        self._stopped.setdefault(position, "cancelled")

    def _check_stop(self, position: int) -> None:
        state = self._states[position]
        patience = self._cells[position].spec.training.stopping.patience
        if patience is not None and state.without_improvement >= patience:
            self._stopped.setdefault(position, "patience")
        if state.round >= self._last_round(position):
            self._stopped.setdefault(position, "rounds")

    def _last_round(self, position: int) -> int:
        return self._cells[position].spec.training.rounds

    def _charge_within_cap(
        self, position: int, taken: NDArray[np.int32], clients: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        cap = self._caps[position]
        charged = clients if cap is None else clients[taken[clients] < cap]
        taken[charged] += 1
        return charged.astype(np.int32)

    # -- layout ---------------------------------------------------------------------------------

    def _store_hypotheses(self) -> None:
        for row, position in enumerate(self._running):
            if position not in self._stopped:
                self._states[position].hypotheses = self._theta[row].cpu().numpy().copy()

    def _arrange(self) -> None:
        """Lays out the tensors for the cells that are still running."""
        if self._running:
            self._store_hypotheses()
        self._running = self.active
        self._block: Block | None = None
        self._validation: tuple[Tensor, Lanes] | None = None
        if not self._running:
            return
        cells = [self._cells[position] for position in self._running]
        self._method = build_method(cells, self._device)
        self._draws = build_draws(cells)
        hypotheses = np.stack([self._states[position].hypotheses for position in self._running])
        self._theta = torch.from_numpy(hypotheses).to(self._device)

    def _ahead(self) -> int:
        size = self._cells[0].spec.training.cohort.clients
        cells = len(self.active)
        return rounds_ahead(cells=cells, elements=cells * size * self.n)

    def _block_of(self, rounds: int) -> Block:
        """The current block of draws, or a new one of `rounds` rounds where it is used up."""
        if self._block is None or self._block.left == 0:
            if self._running != self.active:
                self._arrange()
            training = self._cells[0].spec.training
            first = [self._states[position].round + 1 for position in self._running]
            self._block = draw_block(
                self._draws,
                first_rounds=np.array(first),
                rounds=rounds,
                training=self._data.training[self._running],
                cohort_size=training.cohort.clients,
                validation=self._data.validation[self._running],
                validation_size=training.stopping.validation_clients,
            )
        return self._block
