"""Experiments of one shape, trained side by side.

A stack of one is the ordinary case. Whatever a cell is stacked with, however its rounds are cut
into calls, and wherever it was resumed, its numbers are the same (simulation noise).
"""

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.training.base.cell import Cell, charges_population, counts_clients, draws_in_secret
from fedaudit.training.base.cohort import Block, draw_block
from fedaudit.training.base.parameter_plot import plot_unavailable_reason
from fedaudit.training.base.round_records import FinalResult, PlannedRound, RoundRecord
from fedaudit.training.base.row_figures import row_figures
from fedaudit.training.base.splits import split_cells
from fedaudit.training.base.stopping import EarlyStopping, RunEnd, release_number
from fedaudit.training.engine import build_engine, score_rounds
from fedaudit.training.stack_key import stack_key
from fedaudit.training.stacked.host_rounds import HostRound, gather_to_host, joined
from fedaudit.training.stacked.round_method import build_draws
from fedaudit.training.stacked.run_state import CellState, first_state, participation_cap
from fedaudit.training.stacked.stack_round import Cohort, RoundResult
from fedaudit.training.stacked.validation import Figures


class Stack:
    """Trains cells round by round and returns the results of each round."""

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
        self._rounds = [cell.spec.training.rounds_played for cell in cells]
        self._caps = [participation_cap(cell) for cell in cells]
        self._in_plane = [plot_unavailable_reason(cell) is None for cell in cells]
        self._stopping = [EarlyStopping.of_spec(cell.spec) for cell in cells]
        self._stopped: dict[int, RunEnd] = {}
        self._splits = split_cells(cells)
        self._engine = build_engine(cells, self._splits, self._device)
        self.n = cells[0].shape.n
        self._secret = draws_in_secret(cells[0])
        self._together = charges_population(cells[0])
        self._running: list[int] = []
        self._theta: Tensor
        self._clips: NDArray[np.float64] | None = None
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
        if not self.active:
            return {}
        block = self._block_of(rounds)
        planned: dict[int, list[PlannedRound]] = {}
        for row, position in enumerate(self._running):
            if position in self._stopped:
                continue
            uses = self._states[position].budget_uses.copy()
            planned[position] = []
            for step in range(block.position, block.position + min(rounds, block.left)):
                number = int(block.rounds[step, row])
                charged = self._charged(position, uses, block.cohort[step, row])
                if number <= self._last_round(position):
                    release = release_number(self._states[position], number)
                    planned[position].append(PlannedRound(number, release, charged))
        return planned

    def advance(self, rounds: int) -> dict[int, list[RoundRecord]]:
        """Runs up to `rounds` more rounds of every active cell.

        With `release` noise it stops where the plan ends; raises RuntimeError without a plan.
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
        """Rounds to run before they are validated; some may lie beyond an early stop.

        Those are discarded, so with `release` noise, where every round that was run has been
        charged, there is one at a time.
        """
        if self._secret:
            return 1
        last = max(self._last_round(place) - self._states[place].round for place in self.active)
        return min(self._engine.rounds_together(len(self._running)), last)

    def _play_stride(
        self, block: Block, stride: int, records: dict[int, list[RoundRecord]]
    ) -> None:
        self._engine.draw_noise(block)
        steps = range(block.position, block.position + stride)
        # Rounds beyond an early stop take from these copies only.
        uses = [self._states[position].budget_uses.copy() for position in self._running]
        cohorts = [self._cohort(block, step, uses) for step in steps]
        played = self._engine.play(self._theta, cohorts, self._clips)
        self._theta, self._clips = played[-1].hypotheses, played[-1].clips
        block.position += stride
        due = [step for step in range(stride) if self._due(cohorts[step])]
        figures = self._validate(block, [steps[step] for step in due], [played[s] for s in due])
        for step, drawn in enumerate(gather_to_host(cohorts, played)):
            place = due.index(step) * len(self._running) if step in due else None
            self._keep(drawn, played[step], figures, place, records)

    def _cohort(self, block: Block, step: int, uses: Sequence[NDArray[np.int32]]) -> Cohort:
        clients = block.cohort[step]
        if self._together:
            allowed = np.ones(clients.shape, np.bool_) if block.drawn is None else block.drawn[step]
        else:
            allowed = np.ones(clients.shape, dtype=np.bool_)
            bounded = any(cap is not None for cap in self._caps)
            for row, position in enumerate(self._running if bounded else ()):
                allowed[row] = self._admit(position, uses[row], clients[row])
        return Cohort(
            rounds=block.rounds[step],
            clients=clients,
            allowed=allowed,
            noise=None if block.noise is None else block.noise[step],
            count_noise=None if block.count_noise is None else block.count_noise[step],
        )

    def _charged(
        self, position: int, uses: NDArray[np.int32], clients: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """The ledger's subjects that a round with these clients is charged to."""
        if self._together:
            return np.zeros(1, dtype=np.int32)
        return clients[self._admit(position, uses, clients)].astype(np.int32)

    def _admit(
        self, position: int, uses: NDArray[np.int32], clients: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Which clients' budgets have room for one more release; counts it on `budget_uses`."""
        cap = self._caps[position]
        room = np.ones(len(clients), dtype=np.bool_) if cap is None else uses[clients] < cap
        uses[clients[room]] += 1
        return room

    def _keep(
        self,
        drawn: HostRound,
        played: RoundResult,
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
                release=release_number(state, number),
                figures=figures if validated else None,
                place=(place or 0) + row,
                in_plane=self._in_plane[position],
            )
            records[position].append(record)
            state.round = number
            state.collapsed_rounds += record.collapsed
            if record.selection_loss is not None:
                self._observe(
                    position,
                    record.selection_loss,
                    hypotheses=played.hypotheses[row],
                    sizes=record.cluster_sizes,
                )
            self._check_stop(position)
            if position in self._stopped:
                state.hypotheses = played.hypotheses[row].cpu().numpy().copy()
                state.clip = None if played.clips is None else float(played.clips[row])

    def _observe(
        self, position: int, loss: float, *, hypotheses: Tensor, sizes: Sequence[int]
    ) -> None:
        """Keeps the hypotheses with the smallest selection loss, and their clusters' sizes."""
        state = self._states[position]
        match self._stopping[position].observe(state, loss):
            case "diverged":
                self._stopped[position] = "diverged"
            case "improved":
                state.best_hypotheses = hypotheses.cpu().numpy().copy()
                if sizes:
                    state.best_sizes = np.array(sizes, dtype=np.int64)
            case "not-improved":
                pass
            case unknown:
                assert_never(unknown)

    # -- validation -----------------------------------------------------------------------------

    def _validates(self, position: int, number: int) -> bool:
        return self._stopping[position].validates(number, last_round=self._last_round(position))

    def _due(self, cohort: Cohort) -> bool:
        return any(
            self._validates(position, int(cohort.rounds[row]))
            for row, position in enumerate(self._running)
        )

    def _validate(
        self, block: Block, steps: list[int], played: list[RoundResult]
    ) -> Figures | None:
        """Figures of some rounds of the block, one after the other along the cells' axis."""
        if not steps:
            return None
        if block.validation is None:
            clients = np.tile(self._splits.validation[self._running], (len(steps), 1))
        else:
            clients = np.concatenate(block.validation[steps])
        return score_rounds(
            self._engine,
            joined([part.hypotheses for part in played]),
            clients,
            self._running * len(steps),
            joined([part.sizes for part in played]),
            by_client=counts_clients(self._cells[0].spec),
        )

    def result(self, position: int) -> FinalResult:
        """The result of the finished run at `position`, at its best hypotheses."""
        state, cell = self._states[position], self._cells[position]
        clients = self._splits.validation[position]
        place = cell.federation.rows_of(clients)
        figures = self._scored(position, state, per_client=True, tuned=True)
        if figures.final is None:
            raise RuntimeError("the last evaluation is made client by client")
        # What personal steps make of any model is no merit of the rounds.
        plays = cell.spec.training.method.releases
        started = self._scored(position, first_state(cell), per_client=False, tuned=plays)
        return FinalResult(
            stopped_by=self._stopped.get(position, "running"),
            rounds=state.round,
            best_round=state.best_round,
            hypotheses=state.best_hypotheses.copy(),
            selection_loss=float(figures.selection_loss[0]),
            validation_loss=float(figures.validation_loss[0]),
            accuracy=None if figures.accuracy is None else float(figures.accuracy[0]),
            fairness={name: count[0] for name, count in figures.counts.items()},
            single_row_clients=int((cell.federation.counts[clients] == 1).sum()),
            collapsed_rounds=state.collapsed_rounds,
            start_loss=float(started.selection_loss[0]),
            **vars(row_figures(cell, figures.final, place, by_client=True)),
        )

    def _scored(self, position: int, state: CellState, *, per_client: bool, tuned: bool) -> Figures:
        """Figures of a state's best hypotheses on all validation clients of a cell.

        `tuned`: by those that make models of their own.
        """
        with torch.no_grad():
            return self._engine.score(
                torch.from_numpy(state.best_hypotheses)[None].to(self._device),
                self._splits.validation[[position]],
                [position],
                torch.from_numpy(state.best_sizes)[None].to(self._device),
                per_client=per_client,
                tuned=tuned,
            )

    # -- state and layout -------------------------------------------------------------------------

    def checkpoint(self, position: int) -> bytes:
        """The checkpoint of the cell at `position`; the same for the same state."""
        self._store_running(position)
        return self._states[position].encode()

    def releases(self, position: int) -> NDArray[np.int32]:
        """Releases of each of the ledger's subjects so far: int32 [subjects]."""
        return self._states[position].releases.copy()

    def set_release(self, position: int, release: int, *, until: int) -> None:
        """Rounds up to `until` repeat rounds already charged: they carry this release number."""
        self._states[position].release = release
        self._states[position].release_until = until

    def charge(self, position: int, subjects: NDArray[np.int32]) -> None:
        """Charges subjects for a round whose noise was drawn and whose result was lost.

        A budget that is thereby used up ends the run.
        """
        self._store_running(position)
        state = self._states[position]
        state.releases[subjects] += 1
        state.budget_uses[subjects] += 1
        self._check_stop(position)

    def stop(self, position: int) -> None:
        """Removes a cell before its end."""
        self._store_running(position)
        self._stopped.setdefault(position, "cancelled")

    def _check_stop(self, position: int) -> None:
        why = self._stopping[position].stop_reason(
            self._states[position], last_round=self._last_round(position)
        )
        if why is not None:
            self._stopped.setdefault(position, why)

    def _last_round(self, position: int) -> int:
        """The spec's last round, or the last before one that would exceed the population's
        budget."""
        last, cap = self._rounds[position], self._caps[position]
        if cap is None or not self._together:
            return last
        state = self._states[position]
        return min(last, state.round + cap - int(state.budget_uses[0]))

    def _store_running(self, position: int) -> None:
        """Puts what the tensors hold of a running cell into its state."""
        if position in self._running and position not in self._stopped:
            row, state = self._running.index(position), self._states[position]
            state.hypotheses = self._theta[row].cpu().numpy().copy()
            state.clip = None if self._clips is None else float(self._clips[row])

    def _arrange(self) -> None:
        """Lays out the tensors for the cells that are still running."""
        for position in self._running:
            self._store_running(position)
        self._running = self.active
        self._block: Block | None = None
        if not self._running:
            return
        cells = [self._cells[position] for position in self._running]
        self._engine.arrange(self._running)
        self._draws = build_draws(cells)
        states = [self._states[position] for position in self._running]
        hypotheses = np.stack([state.hypotheses for state in states])
        self._theta = torch.from_numpy(hypotheses).to(self._device)
        clips = [state.clip for state in states if state.clip is not None]
        self._clips = np.array(clips) if clips else None

    def _ahead(self) -> int:
        return self._engine.rounds_ahead(len(self.active))

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
                training=self._splits.training[self._running],
                cohort=training.cohort,
                validation=self._splits.validation[self._running],
                validation_size=training.stopping.validation_clients,
            )
        return self._block
