"""What a run must remember between rounds: with counter-based numbers, nothing else."""

import io
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.training.base.cell import Cell, ledger_subjects
from fedaudit.training.base.first_hypotheses import first_hypotheses
from fedaudit.training.base.run_spending import spending_of
from fedaudit.training.mechanisms.base import ClientMechanism, RecordMechanism, ServerMechanism
from fedaudit.training.mechanisms.registry import training_mechanism


@dataclass
class CellState:
    """The state of one experiment."""

    round: int
    """Rounds done."""
    release: int
    release_until: int
    """Rounds up to this one repeat a round that was already charged, under `release`."""
    hypotheses: NDArray[np.float32]
    best_hypotheses: NDArray[np.float32]
    best_sizes: NDArray[np.int64]
    best_loss: float
    best_round: int
    without_improvement: int
    collapsed_rounds: int
    releases: NDArray[np.int32]
    """Releases of each of the ledger's subjects: the federation's clients, or everyone as one."""
    budget_uses: NDArray[np.int32]
    """Releases and withheld updates: what the subject's budget is held against."""
    clip: float | None = None
    """What a trusted server clips updates of the next round to; None without one."""

    def encode(self) -> bytes:
        """Bytes that `decode` reads back, the same for the same state."""
        buffer = io.BytesIO()
        given = {name: value for name, value in vars(self).items() if value is not None}
        values = {name: np.asarray(value) for name, value in given.items()}
        if self.best_round == self.round:
            del values["best_hypotheses"]  # the present ones, which can be long
        np.savez(buffer, allow_pickle=False, **values)
        return buffer.getvalue()

    @classmethod
    def decode(cls, checkpoint: bytes) -> "CellState":
        """The state in a checkpoint."""
        with np.load(io.BytesIO(checkpoint), allow_pickle=False) as values:
            arrays = {name: values[name] for name in values.files}
        arrays.setdefault("best_hypotheses", arrays["hypotheses"].copy())
        return cls(**{name: _plain(value) for name, value in arrays.items()})


def _plain(value: NDArray[np.generic]) -> Any:
    return value.item() if value.ndim == 0 else value


def first_state(cell: Cell) -> CellState:
    """The state before the first round."""
    k = cell.spec.training.hypotheses
    hypotheses = first_hypotheses(cell)
    subjects = ledger_subjects(cell)
    return CellState(
        round=0,
        release=0,
        release_until=0,
        hypotheses=hypotheses,
        best_hypotheses=hypotheses.copy(),
        best_sizes=np.zeros(k, dtype=np.int64),
        best_loss=float("inf"),
        best_round=0,
        without_improvement=0,
        collapsed_rounds=0,
        releases=np.zeros(subjects, dtype=np.int32),
        budget_uses=np.zeros(subjects, dtype=np.int32),
        clip=_initial_clip(cell),
    )


def _initial_clip(cell: Cell) -> float | None:
    """What a trusted server clips updates of the first round to; None without one."""
    mechanism = training_mechanism(cell.spec.privacy)
    match mechanism:
        case ServerMechanism():
            return mechanism.initial_clip
        case ClientMechanism():
            return None
        case RecordMechanism():
            raise ValueError(f"{mechanism.name} keeps a state of its own")
        case _:
            assert_never(mechanism)


def participation_cap(cell: Cell) -> int | None:
    """How often a subject may release before its budget is spent; None without a budget."""
    mechanism = mechanism_of(cell.spec)
    plan = None
    if mechanism.epsilon_budget is not None:  # a plan takes time, and only such a budget needs it
        plan = spending_of(cell.spec, cell.federation)
    return mechanism.participation_cap(n=cell.shape.n, plan=plan)
