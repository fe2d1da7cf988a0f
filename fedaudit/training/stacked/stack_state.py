"""The states of a stack's cells beside one another, and how rounds move them on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.ledger.rows import Outcome
from fedaudit.training.base.stopping import Progress
from fedaudit.training.stacked.host_rounds import Gathered
from fedaudit.training.stacked.run_state import CellState
from fedaudit.training.stacked.stack_round import RoundResult

_REFUSED, _RELEASED = int(Outcome.REFUSED), int(Outcome.RELEASED)


@dataclass
class StackState:
    """The fields of `CellState`, as arrays whose first axis is [cells]."""

    progress: Progress
    hypotheses: NDArray[np.float32]
    best_hypotheses: NDArray[np.float32]
    best_sizes: NDArray[np.int64]
    collapsed_rounds: NDArray[np.int64]
    releases: NDArray[np.int32]
    budget_uses: NDArray[np.int32]
    clips: NDArray[np.float64] | None
    """None without a trusted server."""

    @classmethod
    def of(cls, states: Sequence[CellState]) -> "StackState":
        """The states of cells, one after the other."""
        progress = Progress.at_the_start(len(states))
        for name, values in vars(progress).items():
            values[:] = [getattr(state, name) for state in states]
        clips = [state.clip for state in states if state.clip is not None]
        return cls(
            progress=progress,
            hypotheses=np.stack([state.hypotheses for state in states]),
            best_hypotheses=np.stack([state.best_hypotheses for state in states]),
            best_sizes=np.stack([state.best_sizes for state in states]),
            collapsed_rounds=np.array([state.collapsed_rounds for state in states]),
            releases=np.stack([state.releases for state in states]),
            budget_uses=np.stack([state.budget_uses for state in states]),
            clips=np.array(clips) if clips else None,
        )

    def of_cell(self, position: int) -> CellState:
        """The state of one cell."""
        progress = {name: values[position].item() for name, values in vars(self.progress).items()}
        return CellState(
            **progress,
            hypotheses=self.hypotheses[position],
            best_hypotheses=self.best_hypotheses[position],
            best_sizes=self.best_sizes[position],
            collapsed_rounds=int(self.collapsed_rounds[position]),
            releases=self.releases[position],
            budget_uses=self.budget_uses[position],
            clip=None if self.clips is None else float(self.clips[position]),
        )

    def store(self, position: int, hypotheses: Tensor, clip: float | None) -> None:
        """The hypotheses [k, n] where a cell stands, and what a trusted server clips to."""
        self.hypotheses[position] = hypotheses.cpu().numpy()
        if self.clips is not None and clip is not None:
            self.clips[position] = clip

    def book(
        self, cells: NDArray[np.int64], gathered: Gathered, *, kept: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        """Counts in the first `kept` [cells] rounds of some of the cells.

        Returns what each subject has released by each round: [rounds, cells, subjects].
        """
        rounds = np.arange(len(gathered.round))[:, np.newaxis]
        self.collapsed_rounds[cells] += (gathered.collapsed & (rounds < kept)).sum(axis=0)
        # Where each subject stands in the arrays when these are taken as one line.
        places = gathered.subjects + (cells * self.releases.shape[1])[:, np.newaxis]
        totals, uses = self.releases.reshape(-1), self.budget_uses.reshape(-1)
        released, used = gathered.outcomes == _RELEASED, gathered.outcomes != _REFUSED
        booked = np.zeros(places.shape, dtype=np.int32)
        for step in range(len(places)):
            playing = slice(None) if step < kept.min() else kept > step
            own = places[step, playing]
            booked[step, playing] = now = totals[own] + released[step, playing]
            totals[own] = now
            uses[own] += used[step, playing]
        return booked

    def keep_best(
        self, cells: NDArray[np.int64], played: Sequence[RoundResult], improved: NDArray[np.int64]
    ) -> None:
        """Takes each cell's hypotheses and their clusters' sizes from the round that `improved`
        [cells] names; none where that is -1. Sizes that are secret stay as they are."""
        for step in set(improved[improved >= 0].tolist()):
            rows = np.flatnonzero(improved == step)
            best = played[step]
            self.best_hypotheses[cells[rows]] = best.hypotheses[rows].cpu().numpy()
            if best.sent is not None:
                self.best_sizes[cells[rows]] = best.sizes[rows].cpu().numpy()
