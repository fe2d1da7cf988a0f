"""Canary clients of `laplace-l2`: each sends one of two inputs, by its coin."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.canaries.canary_set import CanarySet
from fedaudit.training.base.planted import PlantedUpdates, SentUploads, SummedRound


class MetricClients(PlantedUpdates):
    """Clients that send `present` or `absent` lengths of their direction; of each the first upload
    counts, since the coin of a canary is one."""

    def __init__(
        self, clients: NDArray[np.int64], canaries: CanarySet, *, present: float, absent: float
    ) -> None:
        self._clients, self._canaries = clients, canaries
        self._present, self._absent = present, absent
        self.distances = np.full((len(clients), 2), np.nan)
        """[canaries, 2]: of the first upload from what is sent where it is present, and absent; NaN
        for a canary that took no part."""

    @property
    def clients(self) -> NDArray[np.int64]:
        """See `PlantedUpdates`."""
        return self._clients

    def updates(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `PlantedUpdates`."""
        lengths = np.where(self._canaries.coins[places], self._present, self._absent)
        return self._canaries.directions.vectors(places) * lengths[:, None].astype(np.float32)

    def see_sum(self, seen: SummedRound) -> None:
        """Raises ValueError: under metric privacy clients protect their own uploads."""
        raise ValueError("no server sums under metric privacy")

    def see_uploads(self, seen: SentUploads) -> None:
        """See `PlantedUpdates`."""
        places = np.searchsorted(self._clients, seen.clients)
        fresh = np.isnan(self.distances[places, 0])
        sent = seen.uploads[fresh].astype(np.float64) - seen.start[fresh]
        vectors = self._canaries.directions.vectors(places[fresh])
        for side, length in enumerate((self._present, self._absent)):
            self.distances[places[fresh], side] = np.linalg.norm(sent - length * vectors, axis=1)
