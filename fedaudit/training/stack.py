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
from fedaudit.training.cohort import Block, draw_block, draw_noise, rounds_ahead, rounds_together
from fedaudit.training.data import StackData
from fedaudit.training.group_counts import GroupCounter
from fedaudit.training.method import build_draws, build_method, trims_lanes
from fedaudit.training.observation import DrawnRound, draw_in
from fedaudit.training.records import FinalResult, PlannedRound, RoundRecord
from fedaudit.training.rounds import Cohort, Played, play_round
from fedaudit.training.state import CellState, first_state, participation_cap
from fedaudit.training.validation import Figures, Validator


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
        self._data = StackData(cells, self._device, trims=trims_lanes(cells[0]))
        method = build_method(cells, self._device)
        counter = GroupCounter(self._data.federations, cells[0].spec.fairness)
        self._validator = Validator(method.network, method.loss, self._data, counter)
        self.n = cells[0].shape.n
        self._secret = cells[0].spec.privacy.noise == "release"
        self._running: list[int] = []
        self._theta: Tensor
        for position in range(len(self._cells)):
            self._check_stop(position)
        self._arrange()

    @property
    def active(self) -> list[int]:
        """Positions of the cells that are still running."""
        return [position for position in range(len(self._cells)) if position not in self._stopped]

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
            taken = self._states[position].taken.copy()
            planned[position] = []
            for step in range(block.position, block.position + min(rounds, block.left)):
                number, clients = int(block.rounds[step, row]), block.cohort[step, row]
                charged = clients[self._admit(position, taken, clients)]
                if number <= self._last_round(position):
                    release = self._release_of(position, number)
                    planned[position].append(
                        PlannedRound(number, release, charged.astype(np.int32))
                    )
        return planned

    def advance(self, rounds: int) -> dict[int, list[RoundRecord]]:
        """Plays up to `rounds` more rounds of every active cell.

        With `release` noise it stops where the plan ends; RuntimeError without a plan.
        """
        records: dict[int, list[RoundRecord]] = {position: [] for position in self.active}
        left = rounds
        with torch.no_grad():
            while left and self.active:
                planned = self._block is not None and self._block.left > 0
                if self._secret and not planned:
                    if left < rounds:
                        break
                    raise RuntimeError("rounds with `release` noise must be planned first")
                block = self._block_of(self._ahead())
                stride = min(left, self._stride(), block.left)
                self._play_stride(block, stride, records)
                left -= stride
        return records

    def _stride(self) -> int:
        """Rounds to play before they are validated; some may lie beyond an early stop.

        Those are thrown away, so with `release` noise, where a round that was played has been
        paid for, there is one at a time.
        """
        if self._secret:
            return 1
        last = max(self._last_round(place) - self._states[place].round for place in self.active)
        return min(rounds_together(cells=len(self._running)), last)

    def _play_stride(
        self, block: Block, stride: int, records: dict[int, list[RoundRecord]]
    ) -> None:
        if block.noise is None and self._method.sanitise is not None:
            draw_noise(self._draws, block, n=self.n)
        steps = range(block.position, block.position + stride)
        # Rounds beyond an early stop take from these copies only.
        taken = [self._states[position].taken.copy() for position in self._running]
        cohorts = [self._cohort(block, step, taken) for step in steps]
        played = []
        for cohort in cohorts:
            played.append(play_round(self._method, self._theta, cohort, self._draws.source(1)))
            self._theta = played[-1].clusters.hypotheses
        block.position += stride
        due = [step for step in range(stride) if self._due(cohorts[step])]
        figures = self._validate(block, [steps[step] for step in due], [played[s] for s in due])
        for step, drawn in enumerate(draw_in(cohorts, played)):
            place = due.index(step) * len(self._running) if step in due else None
            self._keep(drawn, played[step], figures, place, records)

    def _cohort(self, block: Block, step: int, taken: Sequence[NDArray[np.int32]]) -> Cohort:
        clients = block.cohort[step]
        allowed = np.ones(clients.shape, dtype=np.bool_)
        for row, position in enumerate(self._running):
            allowed[row] = self._admit(position, taken[row], clients[row])
        noise = None
        if block.noise is not None:
            noise = torch.from_numpy(block.noise[step]).to(self._device)
        return Cohort(
            rounds=block.rounds[step],
            clients=clients,
            allowed=allowed,
            lanes=self._data.lanes(self._data.columns(clients, self._running)),
            noise=noise,
        )

    def _admit(
        self, position: int, taken: NDArray[np.int32], clients: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which clients' budgets have room for one more release; counts it on `taken`."""
        cap = self._caps[position]
        room = np.ones(len(clients), dtype=np.bool_) if cap is None else taken[clients] < cap
        taken[clients[room]] += 1
        return room

    def _keep(
        self,
        drawn: DrawnRound,
        played: Played,
        figures: Figures | None,
        place: int | None,
        records: dict[int, list[RoundRecord]],
    ) -> None:
        """Moves the states of running cells on and records their round."""
        for row, position in enumerate(self._running):
            if position in self._stopped:
                continue
            state = self._states[position]
            number = int(drawn.rounds[row])
            validated = place is not None and self._validates(position, number)
            record = drawn.record(
                row,
                state,
                release=self._release_of(position, number),
                figures=figures if validated else None,
                place=(place or 0) + row,
            )
            records[position].append(record)
            state.round = number
            state.collapsed_rounds += record.collapsed
            if record.selection_loss is not None:
                self._observe(position, record, played.clusters.hypotheses[row])
            self._check_stop(position)
            if position in self._stopped:
                state.hypotheses = played.clusters.hypotheses[row].cpu().numpy().copy()

    def _observe(self, position: int, record: RoundRecord, hypotheses: Tensor) -> None:
        """Early stopping: keeps the hypotheses with the smallest selection loss."""
        state, loss = self._states[position], record.selection_loss
        if loss is None or not np.isfinite(loss):
            self._stopped[position] = "diverged"
            return
        state.without_improvement += 1
        if loss < state.best_loss:
            state.best_loss, state.best_round = loss, record.round
            state.best_hypotheses = hypotheses.cpu().numpy().copy()
            state.best_sizes = np.array(record.cluster_sizes, dtype=np.int64)
            state.without_improvement = 0

    # -- validation -----------------------------------------------------------------------------

    def _validates(self, position: int, number: int) -> bool:
        every = self._cells[position].spec.training.stopping.validate_every
        return number % every == 0 or number == self._last_round(position)

    def _due(self, cohort: Cohort) -> bool:
        return any(
            self._validates(position, int(cohort.rounds[row]))
            for row, position in enumerate(self._running)
        )

    def _validate(self, block: Block, steps: list[int], played: list[Played]) -> Figures | None:
        """Figures of some rounds of the block, one after the other along the cells' axis."""
        if not steps:
            return None
        if block.validation is None:
            clients = np.tile(self._data.validation[self._running], (len(steps), 1, 1))
        else:
            clients = block.validation[steps]
        columns = self._data.columns(clients, self._running)
        return self._validator.score(
            torch.cat([part.clusters.hypotheses for part in played]),
            columns.reshape(-1, columns.shape[-1]),
            torch.cat([part.clusters.sizes for part in played]),
        )

    def result(self, position: int) -> FinalResult:
        """What the finished run at `position` amounts to, at its best hypotheses."""
        state = self._states[position]
        clients = self._data.validation[[position]]
        with torch.no_grad():
            figures = self._validator.score(
                torch.from_numpy(state.best_hypotheses)[None].to(self._device),
                self._data.columns(clients, [position]),
                torch.from_numpy(state.best_sizes)[None].to(self._device),
                per_client=True,
            )
        rows = self._cells[position].federation.mask[clients[0]].sum(1)
        return FinalResult(
            stopped_by=self._stopped.get(position, "running"),
            rounds=state.round,
            best_round=state.best_round,
            hypotheses=state.best_hypotheses.copy(),
            selection_loss=float(figures.selection_loss[0]),
            validation_loss=float(figures.validation_loss[0]),
            accuracy=None if figures.accuracy is None else float(figures.accuracy[0]),
            fairness={name: count[0] for name, count in figures.counts.items()},
            single_row_clients=int((rows == 1).sum()),
            collapsed_rounds=state.collapsed_rounds,
        )

    # -- state ----------------------------------------------------------------------------------

    def checkpoint(self, position: int) -> bytes:
        """Everything needed to go on with the cell at `position`; the same for the same state."""
        self._store_hypotheses(position)
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
        self._store_hypotheses(position)
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

    def _release_of(self, position: int, number: int) -> int:
        state = self._states[position]
        return state.release if number <= state.release_until else 0

    # -- layout ---------------------------------------------------------------------------------

    def _store_hypotheses(self, position: int) -> None:
        if position in self._running and position not in self._stopped:
            hypotheses = self._theta[self._running.index(position)]
            self._states[position].hypotheses = hypotheses.cpu().numpy().copy()

    def _arrange(self) -> None:
        """Lays out the tensors for the cells that are still running."""
        for position in self._running:
            self._store_hypotheses(position)
        self._running = self.active
        self._block: Block | None = None
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
