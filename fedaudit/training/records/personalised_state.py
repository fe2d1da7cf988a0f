"""What a run of `record-personalised` must remember between rounds."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedaudit.training.base.cell import Cell
from fedaudit.training.base.first_hypotheses import first_hypotheses
from fedaudit.training.base.stopping import Progress


@dataclass
class PersonalisedState:
    """The state of one experiment. Optimisers start anew in every round and leave nothing."""

    progress: Progress
    """Of this one run."""
    lost: int
    """Rounds that were charged and whose result was lost; they are composed like the others, and
    count towards the rounds for which a record stays."""
    theta: NDArray[np.float32]
    """[n]."""
    best_theta: NDArray[np.float32]
    participations: NDArray[np.int32]
    """[clients of the federation]: rounds that each took part in; of a lost round, all."""

    @property
    def round(self) -> int:
        """Rounds done."""
        return int(self.progress.round[0])

    @property
    def compositions(self) -> int:
        """Rounds that were paid for."""
        return self.round + self.lost

    def encode(self) -> bytes:
        """Bytes that `decode` reads back, the same for the same state."""
        buffer = io.BytesIO()
        progress = {name: values[0] for name, values in vars(self.progress).items()}
        others = {name: value for name, value in vars(self).items() if name != "progress"}
        values = {name: np.asarray(value) for name, value in {**progress, **others}.items()}
        np.savez(buffer, allow_pickle=False, **values)
        return buffer.getvalue()

    @classmethod
    def decode(cls, checkpoint: bytes) -> "PersonalisedState":
        """The state in a checkpoint."""
        with np.load(io.BytesIO(checkpoint), allow_pickle=False) as values:
            found = {name: _plain(values[name]) for name in values.files}
        progress = Progress.at_the_start(1)
        for name, of_run in vars(progress).items():
            of_run[0] = found.pop(name)
        return cls(progress=progress, **found)


def _plain(value: NDArray[np.generic]) -> Any:
    return value.item() if value.ndim == 0 else value


def first_personalised_state(cell: Cell) -> PersonalisedState:
    """The state before the first round."""
    theta = first_hypotheses(cell)[0]
    return PersonalisedState(
        progress=Progress.at_the_start(1),
        lost=0,
        theta=theta,
        best_theta=theta.copy(),
        participations=np.zeros(cell.federation.clients, dtype=np.int32),
    )
