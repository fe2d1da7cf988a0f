"""What a run must remember between rounds: with counter-based numbers, nothing else."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.networks.initial import initial_hypotheses
from fedaudit.privacy.metric import largest_participation
from fedaudit.spec.privacy import LaplaceL2
from fedaudit.training.cell import Cell


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
    """Releases of each client, over the federation's indices."""
    taken: NDArray[np.int32]
    """Releases and withheld updates: what the client's budget is held against."""

    def encode(self) -> bytes:
        """Bytes that `decode` reads back, the same for the same state."""
        buffer = io.BytesIO()
        values = {name: np.asarray(value) for name, value in vars(self).items()}
        np.savez(buffer, allow_pickle=False, **values)
        return buffer.getvalue()

    @classmethod
    def decode(cls, checkpoint: bytes) -> "CellState":
        """The state in a checkpoint."""
        with np.load(io.BytesIO(checkpoint), allow_pickle=False) as values:
            arrays = {name: values[name] for name in values.files}
        return cls(**{name: _plain(value) for name, value in arrays.items()})


def _plain(value: NDArray[np.generic]) -> Any:
    return value.item() if value.ndim == 0 else value


def first_state(cell: Cell) -> CellState:
    """The state before the first round."""
    k = cell.spec.training.hypotheses
    hypotheses = initial_hypotheses(cell.shape, hypotheses=k, seed=cell.spec.seed)
    clients = cell.federation.clients
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
        releases=np.zeros(clients, dtype=np.int32),
        taken=np.zeros(clients, dtype=np.int32),
    )


def participation_cap(cell: Cell) -> int | None:
    """How often a client may release before its budget is spent; None without a budget."""
    privacy = cell.spec.privacy
    if not isinstance(privacy, LaplaceL2) or privacy.client_budget is None:
        return None
    return largest_participation(
        client_budget=privacy.client_budget,
        n=cell.shape.n,
        noise_multiplier=privacy.noise_multiplier,
    )
