"""Records whose gradients an audit replaces, among the silos of a round."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.networks.record_gradients import shares, vector_norms
from fedaudit.training.base.planted import NoisedSteps, PlantedRecords


@dataclass(frozen=True, eq=False)
class PlantedGradients:
    """The planted records that the silos of a round hold."""

    planted: PlantedRecords
    silos: NDArray[np.int64]
    """[silos], in the federation's numbers."""
    number: NDArray[np.int64]
    """[silos, rows]: the number of the planted record in a row; -1 where there is none."""

    @classmethod
    def among(cls, planted: PlantedRecords, silos: NDArray[np.int64], *, rows: int) -> Self | None:
        """Those that these silos [silos] hold among their rows; None where they hold none."""
        held = np.flatnonzero(np.isin(planted.silos, silos))
        if not len(held):
            return None
        number = np.full((len(silos), rows), -1, dtype=np.int64)
        order = np.argsort(silos)
        place = order[np.searchsorted(silos, planted.silos[held], sorter=order)]
        number[place, planted.rows[held]] = held
        return cls(planted, silos, number)

    def without(self, taken: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The coins [..., silos, rows] less those of planted records."""
        return taken & (self.number < 0)

    def added(self, total: Tensor, taken: NDArray[np.bool_], *, clip: float) -> Tensor:
        """The sums [silos, n] of all others with the planted gradients that `taken` [silos, rows]
        drew, each clipped as every record's is."""
        silo, numbers = self._drawn(taken)
        gradients = torch.from_numpy(self.planted.gradients(numbers)).to(total.device)
        share = shares(vector_norms(gradients), clip=clip)
        clipped = (gradients * share[:, None]).float().double()
        return total.index_add(0, torch.from_numpy(silo).to(total.device), clipped)

    def show(self, known: Tensor, released: Tensor, taken: NDArray[np.bool_]) -> None:
        """Shows a step: sums [silos, n] of all other records, and those released."""
        holding = np.flatnonzero((self.number >= 0).any(-1))
        self.planted.see_step(
            NoisedSteps(
                silos=self.silos[holding],
                known=known.cpu().numpy()[holding],
                released=released.cpu().numpy()[holding],
                taking_part=self._drawn(taken)[1],
            )
        )

    def _drawn(self, taken: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The silo's place and the number of each planted record that was drawn."""
        silo, row = np.nonzero(taken & (self.number >= 0))
        return silo, self.number[silo, row]
