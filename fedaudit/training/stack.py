"""Experiments of one shape, trained side by side.

A stack of one is the ordinary case. Whatever a cell is stacked with, however its rounds are cut
into calls, and wherever it was resumed, its numbers are the same (simulation noise).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedaudit.arrays import Bools, Floats, Ints, Ints32
from fedaudit.reproducible import prepared_device
from fedaudit.training.base.cell import (
    Cell,
    charges_population,
    draws_in_secret,
    split_cells,
    stack_key,
)
from fedaudit.training.base.cohort import Block, draw_block
from fedaudit.training.base.rounds import (
    NEVER,
    EarlyStopping,
    FinalResult,
    PlannedRound,
    PlayedRounds,
    RunEnd,
)
from fedaudit.training.base.scored_rows import against_constant, client_scores, predicted_rows
from fedaudit.training.engine import build_engines
from fedaudit.training.personalised import RecordByRecord, RecordCharges
from fedaudit.training.stacked.stack_round import Cohort, RoundResult, Scoring, build_draws
from fedaudit.training.stacked.stack_state import (
    CellState,
    StackState,
    Stretch,
    first_state,
    gather_to_host,
    joined,
    participation_cap,
)
from fedaudit.training.stacked.validation import Figures


class Stack:
    """Trains cells of one shape round by round; each is named by its position among them."""

    def __init__(
        self,
        cells: Sequence[Cell],
        *,
        device: str = "cpu",
        checkpoints: Sequence[bytes | None] | None = None,
    ) -> None:
        """Starts the cells, or resumes those that have a checkpoint.

        Raises ValueError where the cells cannot be stacked (`stack_key`), and InvalidInputError
        where a spec asks more of its records than they have.
        """
        if len({stack_key(cell) for cell in cells}) != 1:
            raise ValueError("a stack needs one or more cells of one shape")
        self._cells = list(cells)
        self._device = prepared_device(device)
        self._state = StackState.of_cells(
            [
                first_state(cell) if checkpoint is None else CellState.decode(checkpoint)
                for cell, checkpoint in zip(
                    cells, checkpoints or [None] * len(self._cells), strict=True
                )
            ]
        )
        caps = [participation_cap(cell) for cell in cells]
        self._bounded = any(cap is not None for cap in caps)
        self._caps = np.array([NEVER if cap is None else cap for cap in caps])
        self._stopping = EarlyStopping.of_specs(
            [cell.spec for cell in cells], looks_at_losses=cells[0].chooses_by_losses
        )
        self._stopped: dict[int, RunEnd] = {}
        self._audited = np.full(len(self._cells), NEVER)
        """[cells]: the round that an audit beside each ends it with."""
        self._splits = split_cells(cells)
        self._engine, self._scorer = build_engines(cells, self._splits, self._device)
        self._records = None
        if isinstance(self._engine, RecordByRecord):
            self._records = RecordCharges(self._engine, self._state)
        self.n = cells[0].shape.n
        """Parameters of the network."""
        self._secret = draws_in_secret(cells[0])
        self._together = charges_population(cells[0])
        self._running = np.zeros(0, dtype=np.int64)
        self._theta: Tensor
        self._clips: Floats | None = None
        self._moments: Tensor | None = None
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
        # Blocks are charged and lost whole; random allocation keeps no secret beyond its block.
        whole = self._cells[0].spec.training.block if self._secret else 1
        rounds = whole * -(-rounds // whole)
        block = self._block_of(rounds)
        steps = range(block.position, block.position + min(rounds, block.left))
        uses = self._state.budget_uses[self._running]
        last = whole * -(-self._last_rounds() // whole)
        planned: dict[int, list[PlannedRound]] = {position: [] for position in self.active}
        for step in steps:
            numbers = block.rounds[step]
            releases = self._state.of(self._running).release_numbers(numbers)
            charged = self._charged(block, step, uses)
            for row, position in enumerate(self._running.tolist()):
                number = int(numbers[row])
                if position in planned and number <= last[position]:
                    planned[position].append(PlannedRound(number, int(releases[row]), charged[row]))
        return planned

    def advance(self, rounds: int) -> dict[int, PlayedRounds]:
        """Runs up to `rounds` more rounds of every active cell.

        With `release` noise it stops where the plan ends; raises RuntimeError without a plan.
        """
        played = {position: PlayedRounds() for position in self.active}
        stretches: list[Stretch] = []
        left = rounds
        with torch.no_grad():
            while left and self.active:
                planned = self._block is not None and self._block.left > 0
                if self._secret and not planned:
                    if left < rounds:
                        break
                    raise RuntimeError("rounds with `release` noise must be planned first")
                block = self._block_of(self._engine.rounds_ahead(len(self.active)))
                going_on = stretches and stretches[-1].positions is self._running
                if not going_on or self._records is not None:  # of which rounds differ in width
                    stretches.append(Stretch(self._running))
                stride = min(left, self._stride(), block.left)
                self._play_stride(block, stride, stretches[-1])
                left -= stride
        for stretch in stretches:
            for position, columns in stretch.columns().items():
                played[position] += PlayedRounds((columns,))
        return played

    def _stride(self) -> int:
        """Rounds to run before they are validated; some may lie beyond an early stop.

        Those are discarded, so with `release` noise, where every round that was run has been
        charged, there is one at a time.
        """
        if self._secret:
            return 1
        last = (self._last_rounds() - self._state.round)[self.active].max()
        return min(self._engine.rounds_together(len(self._running)), int(last))

    def _play_stride(self, block: Block, stride: int, stretch: Stretch) -> None:
        self._engine.draw_noise(block)
        steps = range(block.position, block.position + stride)
        cohorts = self._cohorts(block, steps)
        played = self._engine.play(self._theta, cohorts, self._clips, self._moments)
        left = played[-1]
        self._theta, self._clips, self._moments = left.hypotheses, left.clips, left.moments
        block.position += stride
        last = self._last_rounds()[self._running]
        validated = self._rule.validates(block.rounds[steps], last_round=last)
        due = np.flatnonzero(validated.any(axis=1)).tolist()
        figures = self._validate(block, [steps[step] for step in due], [played[s] for s in due])
        records = self._records
        gathered = gather_to_host(
            cohorts, played, subjects=1 if records is None else records.groups
        )
        losses = np.full(validated.shape, np.nan)
        if figures is not None:
            losses[due] = figures.selection_loss.reshape(len(due), -1)
        progress = self._state.of(self._running)
        followed = self._rule.follow(
            progress,
            gathered.round,
            losses,
            validated,
            last_round=last,
            playing=np.array([one not in self._stopped for one in self._running.tolist()]),
            audited=self._audited[self._running],
        )
        counted = (
            {"releases": self._state.count_in(self._running, gathered, kept=followed.kept)}
            if records is None
            else records.count_in(cohorts[0], gathered.subjects)
        )
        stretch.add(
            gathered,
            figures,
            kept=followed.kept,
            release=progress.release_numbers(gathered.round),
            validated=validated,
            **counted,
        )
        self._state.put(self._running, progress)
        self._state.keep_best(self._running, played, followed.improved)
        for row, end in followed.ends.items():
            at, position = played[followed.kept[row] - 1], int(self._running[row])
            self._stopped[position] = end
            self._state.store(position, row, at.hypotheses, at.clips, at.moments)

    def _cohorts(self, block: Block, steps: Sequence[int]) -> list[Cohort]:
        if self._records is not None:
            return [self._records.cohort(block, step) for step in steps]
        # Rounds beyond an early stop take from this copy only.
        uses = self._state.budget_uses[self._running] if self._bounded else None
        cohorts = []
        for step in steps:
            clients = block.cohort[step]
            if self._together and block.drawn is not None:
                allowed = block.drawn[step]
            elif self._together or uses is None:
                allowed = np.ones(clients.shape, np.bool_)
            else:
                allowed = self._admit(uses, clients)
            noise = None if block.noise is None else block.noise[step]
            counts = None if block.count_noise is None else block.count_noise[step]
            cohorts.append(
                Cohort(block.rounds[step], clients, allowed, noise=noise, count_noise=counts)
            )
        return cohorts

    def _charged(self, block: Block, step: int, uses: Ints32) -> list[Ints32]:
        """Return for each cell the ledger's subjects that a round is charged to."""
        if self._records is not None:
            return [self._records.subjects(self._records.cohort(block, step).clients[0])]
        clients = block.cohort[step]
        if self._together:
            return [np.zeros(1, dtype=np.int32)] * len(clients)
        room = self._admit(uses, clients)
        return [own[which].astype(np.int32) for own, which in zip(clients, room, strict=True)]

    def _admit(self, uses: Ints32, clients: Ints) -> Bools:
        """Which clients' budgets have room for one more release, [cells, clients]; counts it on
        `uses` [cells, clients of the federation]."""
        rows = np.arange(len(uses))[:, np.newaxis]
        used = uses[rows, clients]
        room: Bools = used < self._caps[self._running, np.newaxis]
        uses[rows, clients] = used + room
        return room

    # -- validation -----------------------------------------------------------------------------

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
        return self._scorer.score(
            Scoring(
                joined([part.hypotheses for part in played]),
                clients,
                self._running.tolist() * len(steps),
                joined([part.sizes for part in played]),
            )
        )

    def result(self, position: int) -> FinalResult:
        """The result of the finished run at `position`, at its best hypotheses and on all of its
        validation clients."""
        state, cell = self._state.of_cell(position), self._cells[position]
        figures = self._scored(position, state, per_client=True, tuned=True)
        rows, scores = figures.rows, figures.scores
        if rows is None or scores is None:
            raise RuntimeError("the last evaluation is made client by client")
        # What personal steps make of any model is no merit of the rounds.
        plays = cell.spec.training.method.releases
        started = self._scored(position, first_state(cell), per_client=False, tuned=plays)
        place = cell.validation_rows.place
        if rows.scored is not None:
            rows, place = rows.of(rows.scored), place[rows.scored]
        records, single = None, int((np.bincount(cell.validation_rows.client_of) == 1).sum())
        if self._records is not None:
            records, single = self._records.table(), 0
        return FinalResult(
            stopped_by=self._stopped.get(position, "running"),
            rounds=state.round,
            best_round=state.best_round,
            hypotheses=state.best_hypotheses.copy(),
            selection_loss=float(figures.selection_loss[0]),
            validation_loss=float(figures.validation_loss[0]),
            accuracy=None if figures.accuracy is None else float(figures.accuracy[0]),
            fairness={name: count[0] for name, count in figures.counts.items()},
            single_row_clients=single,
            collapsed_rounds=state.collapsed_rounds,
            start_loss=float(started.selection_loss[0]),
            scores=scores,
            predicted=predicted_rows(cell.federation, cell.spec.fairness, rows, place),
            against_constant=against_constant(cell, rows, place),
            threshold=cell.threshold,
            by_client=client_scores(cell, rows, place),
            records=records,
        )

    def _scored(self, position: int, state: CellState, *, per_client: bool, tuned: bool) -> Figures:
        """Figures of a state's best hypotheses on all validation clients of a cell.

        `tuned`: by those that make their own models.
        """
        with torch.no_grad():
            theta = torch.from_numpy(state.best_hypotheses)[None].to(self._device)
            sizes = torch.from_numpy(state.best_sizes)[None].to(self._device)
            clients = self._splits.validation[[position]]
            asked = Scoring(theta, clients, [position], sizes, tuned)
            return self._scorer.score(asked, per_client=per_client)

    # -- state and layout -------------------------------------------------------------------------

    def checkpoint(self, position: int) -> bytes:
        """The checkpoint of the cell at `position`; the same for the same state."""
        self._store_running(position)
        return self._state.of_cell(position).encode()

    def releases(self, position: int) -> Ints32:
        """Releases of each of the ledger's subjects so far: int32 [subjects]."""
        if self._records is not None:
            return self._records.releases()
        return np.array(self._state.releases[position])

    def set_release(self, position: int, release: int, *, until: int) -> None:
        """Rounds up to `until` repeat rounds already charged: they carry this release number."""
        self._state.release[position] = release
        self._state.release_until[position] = until

    def charge(self, position: int, subjects: Ints32) -> None:
        """Charges subjects for a round whose noise was drawn and whose result was lost.

        A budget that is thereby used up ends the run.
        """
        self._store_running(position)
        if self._records is not None:
            self._records.charge(subjects)
        else:
            self._state.releases[position, subjects] += 1
            self._state.budget_uses[position, subjects] += 1
        self._check_stop(position)

    def stop(self, position: int) -> None:
        """Removes a cell before its end."""
        self._store_running(position)
        self._stopped.setdefault(position, "cancelled")

    def end_after(self, position: int, round_: int) -> None:
        """The cell ends with this round at the latest, or now where it is beyond it: an audit
        beside it has found its noise too small."""
        self._store_running(position)
        self._audited[position] = round_
        self._check_stop(position)

    def _check_stop(self, position: int) -> None:
        why = self._stopping.stop_reason(
            self._state,
            position,
            last_round=int(self._last_rounds()[position]),
            audited=int(self._audited[position]),
        )
        if why is not None:
            self._stopped.setdefault(position, why)

    def _last_rounds(self) -> Ints:
        """The specs' last rounds, or the last before one that would exceed a population's budget,
        or that an audit ends a run with: [cells]."""
        last: Ints = np.minimum(self._stopping.rounds, self._audited)
        if self._bounded and self._together:
            room = self._caps - self._state.budget_uses[:, 0]
            last = np.minimum(last, self._state.round + room)
        return last

    def _store_running(self, position: int) -> None:
        """Puts what the tensors hold of a running cell into its state."""
        if position in self._running and position not in self._stopped:
            row = int(np.flatnonzero(self._running == position)[0])
            self._state.store(position, row, self._theta, self._clips, self._moments)

    def _arrange(self) -> None:
        """Lays out the tensors for the cells that are still running."""
        for position in self._running.tolist():
            self._store_running(position)
        self._running = np.array(self.active, dtype=np.int64)
        self._block: Block | None = None
        if not self.active:
            return
        for engine in {self._engine, self._scorer}:
            engine.arrange(self.active)
        self._rule = self._stopping.of(self.active)
        self._draws = build_draws([self._cells[position] for position in self.active])
        self._theta = torch.from_numpy(self._state.hypotheses[self._running]).to(self._device)
        clips, moments = self._state.clip, self._state.moments
        self._clips = None if clips is None else clips[self._running]
        self._moments = None
        if moments is not None:
            self._moments = torch.from_numpy(moments[self._running]).to(self._device)

    def _block_of(self, rounds: int) -> Block:
        """The current block of draws, or a new one of `rounds` rounds where it is used up."""
        if self._block is None or self._block.left == 0:
            if self._running.tolist() != self.active:
                self._arrange()
            training = self._cells[0].spec.training
            self._block = draw_block(
                self._draws,
                first_rounds=self._state.round[self._running] + 1,
                rounds=rounds,
                training=self._splits.training[self._running],
                cohort=training.drawn_cohort,
                validation=self._splits.validation[self._running],
                validation_size=training.stopping.validation_clients,
            )
        return self._block
