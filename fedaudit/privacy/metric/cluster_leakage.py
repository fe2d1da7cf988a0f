"""The leakage of the clients of each cluster, tracked from round to round.

A client belongs to the cluster of its newest upload (Galli et al., SN Computer Science 2023, Figure
2). A round updates only the clients that took part.
"""

from collections.abc import Callable
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray


class ClusterLeakage(TypedDict):
    """Leakage of the clients whose newest upload went into one cluster."""

    cluster: int
    clients: int
    leakage_median: float
    leakage_max: float


class ClusterCounts:
    """The number of clients by cluster and number of releases."""

    def __init__(self, clusters: NDArray[np.int16], releases: NDArray[np.int32]) -> None:
        """The initial cluster and releases of every client, both [clients]; a cluster of -1 means
        none yet."""
        self._clusters = np.array(clusters, dtype=np.int64)
        self._releases = np.array(releases, dtype=np.int64)
        self._counts = np.zeros((1, 1), dtype=np.int64)
        self._make_room(self._clusters, self._releases)
        everybody = self._clusters[np.newaxis], self._releases[np.newaxis]
        [self._counts] = self._in_rounds(*everybody)

    def follow(
        self,
        clients: NDArray[np.int32],
        *,
        clusters: NDArray[np.int16],
        releases: NDArray[np.int32],
        price: Callable[[float], float],
    ) -> list[list[ClusterLeakage]]:
        """Median and largest leakage after each of some rounds, of each cluster that has a client,
        ascending.

        The state of a round's clients after it, each named once: [rounds, clients]. A cluster of
        -1 leaves a client in its cluster: it uploaded nothing, or its upload was lost. `price`: the
        leakage of so many releases.
        """
        before, after = np.empty((2, *clients.shape), dtype=np.int64)
        released = np.empty(clients.shape, dtype=np.int64)
        for at, who in enumerate(clients):
            before[at], released[at] = self._clusters[who], self._releases[who]
            after[at] = np.where(clusters[at] >= 0, clusters[at], before[at])
            self._clusters[who], self._releases[who] = after[at], releases[at]
        self._make_room(after, releases)
        moved = self._in_rounds(after, releases) - self._in_rounds(before, released)
        moved[0] += self._counts
        history = moved.cumsum(axis=0)
        self._counts = history[-1]
        return _priced(history, price)

    def leakage(self, price: Callable[[float], float]) -> list[ClusterLeakage]:
        """The same of where everybody stands now."""
        [now] = _priced(self._counts[np.newaxis], price)
        return now

    def _in_rounds(
        self, clusters: NDArray[np.int64], releases: NDArray[np.integer]
    ) -> NDArray[np.int64]:
        """The number of clients by round, cluster and releases: [rounds, clusters, releases]."""
        shape = (len(clusters), *self._counts.shape)
        rounds, columns = np.nonzero(clusters >= 0)
        own = (rounds, clusters[rounds, columns], releases[rounds, columns])
        places = np.ravel_multi_index(own, shape)
        return np.bincount(places, minlength=np.prod(shape)).reshape(shape)

    def _make_room(self, clusters: NDArray[np.integer], releases: NDArray[np.integer]) -> None:
        """Enlarge the counts to hold these numbers; in steps, so that it happens in few rounds."""
        rows, columns = self._counts.shape
        wanted = int(clusters.max(initial=0)) + 1, int(releases.max(initial=0)) + 1
        if wanted[0] <= rows and wanted[1] <= columns:
            return
        shape = max(rows, wanted[0]), max(columns, wanted[1] + 16)
        grown = np.zeros(shape, dtype=np.int64)
        grown[:rows, :columns] = self._counts
        self._counts = grown


def _priced(
    history: NDArray[np.int64], price: Callable[[float], float]
) -> list[list[ClusterLeakage]]:
    """By round, the leakage of each cluster that has a client, from numbers of clients [rounds,
    clusters, releases]."""
    totals = history.cumsum(axis=2)
    sizes = totals[..., -1]
    low = (totals <= (sizes[..., np.newaxis] - 1) // 2).sum(axis=2)
    high = (totals <= sizes[..., np.newaxis] // 2).sum(axis=2)
    most = (totals < sizes[..., np.newaxis]).sum(axis=2)
    # Computed as in the report: the median of the counts, then the shared factor.
    medians = ((low + high) / 2).tolist()
    columns = zip(sizes.tolist(), medians, most.tolist(), strict=True)
    return [
        [
            ClusterLeakage(
                cluster=cluster,
                clients=size,
                leakage_median=price(median),
                leakage_max=price(largest),
            )
            for cluster, (size, median, largest) in enumerate(zip(*round_, strict=True))
            if size
        ]
        for round_ in columns
    ]
