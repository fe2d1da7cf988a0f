"""What a run of `record-personalised` must remember between rounds."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.training.base.cell import Cell
from fedaudit.training.base.first_hypotheses import first_hypotheses


@dataclass
class PersonalisedState:
    """The state of one experiment. Optimisers start anew in every round and leave nothing."""

    round: int
    """Rounds done."""
    lost: int
    """Rounds that were charged and whose result was lost; they are composed like the others, and
    count towards the rounds for which a record stays."""
    release: int
    release_until: int
    """Rounds up to this one repeat a round that was already charged, under `release`."""
    theta: NDArray[np.float32]
    """[n]."""
    best_theta: NDArray[np.float32]
    best_loss: float
    best_round: int
    without_improvement: int
    participations: NDArray[np.int32]
    """[clients of the federation]: rounds that each took part in; of a lost round, all."""

    @property
    def compositions(self) -> int:
        """Rounds that were paid for."""
        return self.round + self.lost

    def encode(self) -> bytes:
        """Bytes that `decode` reads back, the same for the same state."""
        buffer = io.BytesIO()
        values = {name: np.asarray(value) for name, value in vars(self).items()}
        np.savez(buffer, allow_pickle=False, **values)
        return buffer.getvalue()

    @classmethod
    def decode(cls, checkpoint: bytes) -> "PersonalisedState":
        """The state in a checkpoint."""
        with np.load(io.BytesIO(checkpoint), allow_pickle=False) as values:
            return cls(**{name: _plain(values[name]) for name in values.files})


def _plain(value: NDArray[np.generic]) -> Any:
    return value.item() if value.ndim == 0 else value


def first_personalised_state(cell: Cell) -> PersonalisedState:
    """The state before the first round."""
    theta = first_hypotheses(cell)[0]
    return PersonalisedState(
        round=0,
        lost=0,
        release=0,
        release_until=0,
        theta=theta,
        best_theta=theta.copy(),
        best_loss=float("inf"),
        best_round=0,
        without_improvement=0,
        participations=np.zeros(cell.federation.clients, dtype=np.int32),
    )
