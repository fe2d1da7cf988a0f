"""Plants that keep what they are shown."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedaudit.training.base.planted import (
    NoisedSteps,
    PlantedRecords,
    PlantedUpdates,
    SentUploads,
    SummedRound,
)


@dataclass(eq=False)
class KeptUpdates(PlantedUpdates):
    """Clients that send the rows of a matrix."""

    chosen: NDArray[np.int64]
    matrix: NDArray[np.float32]
    sums: list[SummedRound] = field(default_factory=list)
    uploads: list[SentUploads] = field(default_factory=list)

    @property
    def clients(self) -> NDArray[np.int64]:
        return self.chosen

    def updates(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.matrix[places]

    def see_sum(self, seen: SummedRound) -> None:
        self.sums.append(seen)

    def see_uploads(self, seen: SentUploads) -> None:
        self.uploads.append(seen)


@dataclass(eq=False)
class KeptRecords(PlantedRecords):
    """Records whose gradients are the rows of a matrix."""

    holders: NDArray[np.int64]
    places: NDArray[np.int64]
    matrix: NDArray[np.float32]
    steps: list[NoisedSteps] = field(default_factory=list)

    @property
    def silos(self) -> NDArray[np.int64]:
        return self.holders

    @property
    def rows(self) -> NDArray[np.int64]:
        return self.places

    def gradients(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.matrix[numbers]

    def see_step(self, seen: NoisedSteps) -> None:
        self.steps.append(seen)
