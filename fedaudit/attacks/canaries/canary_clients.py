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
        self._last: tuple[SummedRound, NDArray[np.float64]] | None = None

    @property
    def clients(self) -> NDArray[np.int64]:
        """See `PlantedUpdates`."""
        return self._clients

    def updates(self, places: NDArray[np.int64]) -> NDArray[np.float32]:
        """See `PlantedUpdates`."""
        sent = self._canaries.sent[places] * self._canaries.turns(places, self._found.seen)
        lengths = (BEFORE_THE_CLIP * self._clip * sent).astype(np.float32)
        return self._canaries.directions.vectors(places) * lengths[:, None]

    def see_sum(self, seen: SummedRound) -> None:
        """What the real clients sent is known to the adversary, and is clipped here anew: by the
        definition, and not by the code that is tested."""
        every = np.arange(len(self._clients))
        signal = self._found.see(
            self._left(seen, seen.after)[None],
            which=np.zeros_like(every),
            numbers=every,
            took_part=np.isin(self._clients, seen.clients),
        )
        self._last = seen, signal[0]

    def see_model(self, kept: NDArray[np.float32], *, round_: int) -> None:
        """Sees the model [n] that is kept of a round of a trusted server, counted from 1.

        The same numbers once more tell nothing; others are a release beside that of the round, and
        are seen where it is the last.
        """
        if self._last is None:
            return
        seen, signal = self._last
        rounds = int(self._found.seen.max())
        if round_ == rounds and not np.array_equal(kept, seen.after):
            self._found.kept.see_model(self._left(seen, kept), signal, moment=rounds - 1)

    def _left(self, seen: SummedRound, after: NDArray[np.float32]) -> NDArray[np.float64]:
        """[n], in clips: what is left of a round's sum without the real clients."""
        real = ~np.isin(seen.clients, self._clients)
        change = after.astype(np.float64) - seen.before
        known = _clipped_sum(seen.updates, real, self._clip)
        return (change * self._denominator - known) / self._clip

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
