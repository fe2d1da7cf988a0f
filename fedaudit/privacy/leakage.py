"""Metric privacy: the cost of releases of the Laplace mechanism under Euclidean distance.

Two different sums apply to a client that took part several times (Galli et al., section 4):

- *The theorem* (Lemma 4.1, Theorem 4.2): with public epsilon_t the log-ratio of the densities of
  the whole transcript is at most the sum of epsilon_t * d_t, where d_t is the distance between the
  two uploads of round t given the same transcript so far: `worst_log_ratio`.
- *The paper's convention* (section 4.1.3): each participation costs epsilon * radius = n / nu, and
  participations add up: `leakage`. With a fixed and public radius it is the theorem's number for
  uploads exactly one radius apart in every round; with an adaptive radius it is not a theorem.

Neither is the epsilon of (epsilon, delta)-differential privacy, and neither may be added to one.

The leakage of the clients of each cluster, tracked from round to round.

A client belongs to the cluster of its newest upload (Galli et al., SN Computer Science 2023, Figure
2). A round updates only the clients that took part.

How far noise hides which hypothesis a client chose: Theorem 4.2 of Galli et al. between two.

The choice is not sanitised by itself. Where the same update starts from hypothesis i or from j, the
two uploads lie ||theta_i - theta_j|| apart, and with rate epsilon the densities of what the server
receives differ by a factor of at most exp(epsilon * ||theta_i - theta_j||). Where updates are
clipped to c, the uploads of any two datasets that choose i and j lie at most 2c further apart.

With noise for each of several parts of the vector (layers), the exponents of the parts add up.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.arrays import Floats, Floats32, Ints, Ints16, Ints32, Turns


def release_epsilons(sizes: ArrayLike, *, noise_multiplier: float, radii: ArrayLike) -> Floats:
    """epsilon = n / (nu * radius), per unit of distance (Algorithm 2, line 3), of many releases:
    float64, of the shape that `sizes` and `radii` make together.

    `sizes`: parameters of the parts that have their own noise.
    """
    return np.asarray(sizes) / (noise_multiplier * np.asarray(radii, dtype=np.float64))


def leakage(releases: float, *, n: int, noise_multiplier: float) -> float:
    """releases * n / nu by the paper's convention.

    `releases`: a whole number, or a mean or median of some. The product of integers is exact and
    divided once, in double precision, so that Python, SQLite and Postgres agree to the last bit;
    rounded costs are never summed.
    """
    return float(releases * n) / noise_multiplier


def leakages(releases: ArrayLike, *, n: ArrayLike, noise_multiplier: float) -> Floats:
    """`leakage` of many: float64, of the shape that `releases` and `n` make together."""
    products = np.asarray(np.multiply(releases, n), dtype=np.float64)
    return products / noise_multiplier


def largest_participation(client_budget: float, n: int, noise_multiplier: float) -> int:
    """The largest number of releases whose leakage stays within the budget.

    Exact in the decimals of the request: a budget of 1.2 at n = 2 and nu = 5 allows 3.
    """
    cost = Fraction(n) / Fraction(repr(noise_multiplier))
    return math.floor(Fraction(repr(client_budget)) / cost)


def worst_log_ratio(
    releases: int, *, sizes: Sequence[int], noise_multiplier: float, radius: float, clip: float
) -> float:
    """The theorem's sum over a run, between any two datasets that choose alike in every round.

    `sizes`: parameters of each layer with its own noise, or of the whole vector. Two updates of
    one hypothesis, each clipped, lie within 2 * clip; over layers the sum of epsilon_l * d_l is at
    most that times the norm of the rates n_l / (nu * radius) (Cauchy and Schwarz).
    """
    rate = 1 / (noise_multiplier * radius) * math.hypot(*sizes)
    return releases * (rate * (2 * clip))


def covers_every_pair(*, clip: float, radius: float, sizes: Sequence[int]) -> bool:
    """Whether n / nu bounds a release between any two datasets that choose alike, not only within
    the radius: whether `worst_log_ratio` of one release is at most n / nu.

    `sizes` as there; of the whole vector alone it is 2c <= r.
    """
    # At most 1; a single part is the whole, so that nothing is rounded.
    share = 1.0 if len(sizes) == 1 else math.hypot(*sizes) / sum(sizes)
    return 2 * clip * share <= radius


QUANTILES = (5, 25, 50, 75, 95)


def training_releases(releases: Ints32, *, training_clients: int) -> Ints:
    """Releases of each training client, ascending, from those of all clients.

    Held-out clients never release anything, so leaving out as many zeros as there are held-out
    clients leaves exactly the training clients. Raises ValueError where that many are not zero.
    """
    ordered = np.sort(np.asarray(releases, dtype=np.int64))
    held_out = len(ordered) - training_clients
    if held_out < 0 or ordered[:held_out].any():
        raise ValueError(
            f"{int(np.count_nonzero(ordered))} of {len(ordered)} clients released something, "
            f"but only {training_clients} train; check training_clients"
        )
    return ordered[held_out:]


def leakage_quantiles(
    releases: Ints32, *, training_clients: int, n: int, noise_multiplier: float
) -> dict[str, float]:
    """Quantiles of releases * n / nu over the training clients, with those that never took part:
    p05, p25, p50, p75 and p95.

    `releases`: int [clients], how often each client of the federation released an upload.
    Quantiles interpolate linearly between neighbouring clients.
    """
    ordered = training_releases(releases, training_clients=training_clients)
    return {
        f"p{level:02d}": leakage(float(count), n=n, noise_multiplier=noise_multiplier)
        for level, count in zip(QUANTILES, np.percentile(ordered, QUANTILES), strict=True)
    }


def median_and_most(counts: Ints) -> tuple[Ints, Floats, Ints]:
    """How many subjects there are, their median number of releases, halfway where two stand in the
    middle, and their largest, from how many have each number: [..., releases]."""
    totals = counts.cumsum(axis=-1)
    sizes = totals[..., -1:]
    low = (totals > (sizes - 1) // 2).argmax(axis=-1)
    high = (totals > sizes // 2).argmax(axis=-1)
    return sizes[..., 0], (low + high) / 2, (totals == sizes).argmax(axis=-1)


class ClusterLeakage(TypedDict):
    """Leakage of the clients whose newest upload went into one cluster."""

    cluster: int
    clients: int
    leakage_median: float
    leakage_max: float


class ClusterCounts:
    """The number of clients by cluster and number of releases."""

    def __init__(self, clusters: Ints16, releases: Ints32) -> None:
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
        clients: Ints32,
        *,
        clusters: Ints16,
        releases: Ints32,
        price: Callable[[ArrayLike], Floats],
    ) -> list[list[ClusterLeakage]]:
        """Median and largest leakage after each of some rounds, of each cluster that has a client,
        ascending.

        The state of a round's clients after it, each named once: [rounds, clients]. A cluster of
        -1 leaves a client in its cluster: it uploaded nothing, or its upload was lost. `price`: the
        leakage of so many releases, of many at once.
        """
        turns, shape = Turns(clients.ravel()), clients.shape
        known = clusters.ravel() >= 0
        of_clusters = turns.renew(self._clusters, clusters.astype(np.int64).ravel(), known)
        counted = releases.astype(np.int64).ravel()
        released, _ = turns.renew(self._releases, counted, np.ones_like(known))
        before, after = (clusters.reshape(shape) for clusters in of_clusters)
        self._make_room(after, releases)
        moved = self._in_rounds(after, releases) - self._in_rounds(before, released.reshape(shape))
        moved[0] += self._counts
        history = moved.cumsum(axis=0)
        self._counts = history[-1]
        return _priced(history, price)

    def now(self, price: Callable[[ArrayLike], Floats]) -> list[ClusterLeakage]:
        """Median and largest leakage of each cluster that has a client, ascending; `price` as in
        `follow`."""
        [found] = _priced(self._counts[np.newaxis], price)
        return found

    def _in_rounds(self, clusters: Ints, releases: NDArray[np.integer]) -> Ints:
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
        self._counts = np.pad(self._counts, ((0, shape[0] - rows), (0, shape[1] - columns)))


def _priced(history: Ints, price: Callable[[ArrayLike], Floats]) -> list[list[ClusterLeakage]]:
    """Return for each round the leakage of each cluster that has a client, from numbers of clients
    [rounds, clusters, releases]."""
    sizes, median, most = median_and_most(history)
    # Computed as in the report: the median of the counts, then the shared factor.
    found = (sizes, price(median), price(most))
    return [
        [
            {"cluster": cluster, "clients": size, "leakage_median": median, "leakage_max": largest}
            for cluster, (size, median, largest) in enumerate(zip(*round_, strict=True))
            if size
        ]
        for round_ in zip(*(column.tolist() for column in found), strict=True)
    ]


MAX_LISTED = 6
"""Hypotheses up to which every pair is listed."""
MIN_RELEASES = 5
"""A median of fewer releases would nearly reveal the norm of one client's update."""


def listed_pairs(distances: Floats) -> list[tuple[int, int]]:
    """The pairs that are reported, from distances [k, k]: all, or the nearest and the farthest."""
    pairs = list(combinations(range(len(distances)), 2))
    if len(distances) <= MAX_LISTED:
        return pairs
    ordered = sorted(pairs, key=lambda pair: float(distances[pair]))
    return [ordered[0], ordered[-1]]


def part_distances(hypotheses: Floats32, *, parts: Sequence[int]) -> Floats:
    """Euclidean distances between hypotheses [k, n] within each part: [k, k, parts].

    `parts`: how many parameters each has, in the vector's order. Raises ValueError where they do
    not add up to n.
    """
    k, n = hypotheses.shape
    if sum(parts) != n:
        raise ValueError(f"parts of {sum(parts)} parameters in all cannot make up {n}")
    found = np.zeros((k, k, len(parts)))
    edges = np.cumsum(parts)[:-1]
    for i, j in combinations(range(k), 2):
        # Pair by pair: all at once would be k times as large as the hypotheses.
        apart = hypotheses[i].astype(np.float64) - hypotheses[j]
        norms = [float(np.linalg.norm(piece)) for piece in np.split(apart, edges)]
        found[i, j] = found[j, i] = norms
    return found


def clipped_reach(rates: Floats, *, clip: float) -> Floats:
    """What two clipped updates add to the exponent at most: [releases].

    They lie 2c apart as a whole, so by Cauchy and Schwarz their distances within the parts, each
    times its rate, add up to at most 2c times the norm of the rates [releases, parts].
    """
    return np.asarray(2 * clip * np.linalg.norm(rates, axis=1), dtype=np.float64)
