"""What a run must remember between rounds: with counter-based numbers, nothing else."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.networks.initial import initial_hypotheses
from fedaudit.privacy.metric import largest_participation
from fedaudit.spec.privacy import GaussianCentral, GaussianLocal, LaplaceL2
from fedaudit.training.cell import Cell, ledger_subjects
from fedaudit.training.spending import spending_of


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
    taken: NDArray[np.int32]
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
    hypotheses = initial_hypotheses(cell.shape, hypotheses=k, seed=cell.spec.seed)
    subjects, privacy = ledger_subjects(cell), cell.spec.privacy
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
        taken=np.zeros(subjects, dtype=np.int32),
        clip=privacy.initial_clip if isinstance(privacy, GaussianCentral) else None,
    )


def participation_cap(cell: Cell) -> int | None:
    """How often a subject may release before its budget is spent; None without a budget."""
    privacy = cell.spec.privacy
    if isinstance(privacy, LaplaceL2) and privacy.client_budget is not None:
        return largest_participation(
            client_budget=privacy.client_budget,
            n=cell.shape.n,
            noise_multiplier=privacy.noise_multiplier,
        )
    if isinstance(privacy, GaussianCentral | GaussianLocal) and privacy.epsilon_budget is not None:
        return _steps_within(cell, privacy.epsilon_budget)
    return None


def _steps_within(cell: Cell, epsilon: float) -> int:
    plan = spending_of(cell.spec, cell.federation)
    if plan is None:
        raise ValueError(f"{cell.spec.privacy.mechanism} counts no epsilon")
    (observer,) = plan.observers
    return plan.steps_within(observer, epsilon)
