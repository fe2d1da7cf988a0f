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
        self._add(self._clusters, self._releases, 1)

    def move(
        self,
        clients: NDArray[np.int32],
        *,
        clusters: NDArray[np.int16],
        releases: NDArray[np.int32],
    ) -> None:
        """The state of some clients after a round, each named once; columns along `clients`.

        A cluster of -1 leaves a client in its cluster: it uploaded nothing, or its upload was lost.
        """
        before = self._clusters[clients]
        after = np.where(clusters >= 0, clusters, before)
        self._make_room(after, releases)
        self._add(before, self._releases[clients], -1)
        self._add(after, releases, 1)
        self._clusters[clients], self._releases[clients] = after, releases

    def leakage(self, price: Callable[[float], float]) -> list[ClusterLeakage]:
        """Median and largest leakage of each cluster that has a client, ascending.

        `price`: the leakage of so many releases.
        """
        totals = self._counts.cumsum(axis=1)
        sizes = totals[:, -1]
        low = (totals <= (sizes[:, None] - 1) // 2).sum(axis=1)
        high = (totals <= sizes[:, None] // 2).sum(axis=1)
        most = (totals < sizes[:, None]).sum(axis=1)
        return [
            ClusterLeakage(
                cluster=cluster,
                clients=int(sizes[cluster]),
                # Computed as in the report: the median of the counts, then the shared factor.
                leakage_median=price(float(low[cluster] + high[cluster]) / 2),
                leakage_max=price(int(most[cluster])),
            )
            for cluster in np.flatnonzero(sizes).tolist()
        ]

    def _add(self, clusters: NDArray[np.integer], releases: NDArray[np.integer], by: int) -> None:
        placed = clusters >= 0
        np.add.at(self._counts, (clusters[placed], releases[placed]), by)

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
