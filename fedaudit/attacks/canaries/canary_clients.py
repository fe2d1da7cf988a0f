"""Canaries as clients, of mechanisms with a clip: what they send and what is seen of it."""

import numpy as np
from numpy.typing import NDArray

from fedaudit.attacks.canaries.canary_set import BEFORE_THE_CLIP, CanarySet
from fedaudit.attacks.canaries.evidence_of_releases import ReleaseEvidence
from fedaudit.training.base.planted import PlantedUpdates, SentUploads, SummedRound

_ROWS_AT_ONCE = 256


class CanaryClients(PlantedUpdates):
    """Clients that send canaries, each clipped and noised like any other's update."""

    def __init__(
        self,
        clients: NDArray[np.int64],
        canaries: CanarySet,
        found: ReleaseEvidence,
        *,
        clip: float,
        denominator: float,
    ) -> None:
        """`clients` [canaries], ascending; `denominator`: what a trusted server divides sums by."""
        self._clients, self._canaries, self._found = clients, canaries, found
        self._clip, self._denominator = clip, denominator

    @property
    def clients(self) -> NDArray[np.int64]:
        """See `PlantedUpdates`."""
        return self._clients

    def updates(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `PlantedUpdates`."""
        lengths = (BEFORE_THE_CLIP * self._clip * self._canaries.sent[places]).astype(np.float32)
        return self._canaries.directions.vectors(places) * lengths[:, None]

    def see_sum(self, seen: SummedRound) -> None:
        """What the real clients sent is known to the adversary, and is clipped here anew: by the
        definition, and not by the code that is tested."""
        real = ~np.isin(seen.clients, self._clients)
        change = seen.after.astype(np.float64) - seen.before
        release = change * self._denominator - _clipped_sum(seen.updates, real, self._clip)
        every = np.arange(len(self._clients))
        self._found.see(
            release[None] / self._clip,
            which=np.zeros_like(every),
            numbers=every,
            took_part=np.isin(self._clients, seen.clients),
        )

    def see_uploads(self, seen: SentUploads) -> None:
        """The server sees who sends, so a canary's scores are of its own uploads alone."""
        numbers = np.searchsorted(self._clients, seen.clients)
        releases = (seen.uploads.astype(np.float64) - seen.start) / self._clip
        self._found.see(
            releases,
            which=np.arange(len(numbers)),
            numbers=numbers,
            took_part=np.ones(len(numbers), dtype=np.bool_),
        )


def _clipped_sum(
    updates: NDArray[np.float32], own: NDArray[np.bool_], clip: float
) -> NDArray[np.float64]:
    """The sum of these updates [clients, n], each scaled to a norm of at most the clip: [n]."""
    total = np.zeros(updates.shape[1])
    rows = np.flatnonzero(own)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = updates[rows[start : start + _ROWS_AT_ONCE]].astype(np.float64)
        norms = np.linalg.norm(part, axis=1)
        total += (clip / np.maximum(norms, clip)) @ part
    return total
