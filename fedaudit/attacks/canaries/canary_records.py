"""Canaries as records: what their gradients are, and what is seen of the steps."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.canaries.canary_set import BEFORE_THE_CLIP, CanarySet
from fedaudit.attacks.canaries.evidence_of_releases import ReleaseEvidence
from fedaudit.training.base.planted import NoisedSteps, PlantedRecords


class CanaryRecords(PlantedRecords):
    """Records with chosen gradients; every step of their clients is seen (white box)."""

    def __init__(
        self,
        silos: NDArray[np.int64],
        rows: NDArray[np.int64],
        canaries: CanarySet,
        found: ReleaseEvidence,
        *,
        clip: float,
    ) -> None:
        """`silos` [canaries], ascending, and `rows` [canaries]: whose they are, and which."""
        self._silos, self._rows = silos, rows
        self._canaries, self._found, self._clip = canaries, found, clip

    @property
    def silos(self) -> NDArray[np.int64]:
        """See `PlantedRecords`."""
        return self._silos

    @property
    def rows(self) -> NDArray[np.int64]:
        """See `PlantedRecords`."""
        return self._rows

    def gradients(self, numbers: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `PlantedRecords`."""
        sent = self._canaries.sent[numbers] * self._canaries.turns(numbers, self._found.seen)
        lengths = (BEFORE_THE_CLIP * self._clip * sent).astype(np.float32)
        return self._canaries.directions.vectors(numbers) * lengths[:, None]

    def see_step(self, seen: NoisedSteps) -> None:
        """See `PlantedRecords`."""
        order = np.argsort(seen.silos)
        numbers = np.flatnonzero(np.isin(self._silos, seen.silos))
        which = order[np.searchsorted(seen.silos, self._silos[numbers], sorter=order)]
        self._found.see(
            (seen.released - seen.known) / self._clip,
            which=which,
            numbers=numbers,
            took_part=np.isin(numbers, seen.taking_part),
        )
