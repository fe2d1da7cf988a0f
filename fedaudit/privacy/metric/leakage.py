"""Metric privacy: the cost of releases of the Laplace mechanism under Euclidean distance.

Two different sums apply to a client that took part several times (Galli et al., section 4):

- *The theorem* (Lemma 4.1, Theorem 4.2): with public epsilon_t the log-ratio of the densities of
the whole transcript is at most the sum of epsilon_t * d_t, where d_t is the distance between the
two uploads of round t given the same transcript so far: `log_ratio_bound`. - *The paper's
convention* (section 4.1.3): each participation costs epsilon * radius = n / nu, and participations
add up: `leakage`. With a fixed and public radius it is the theorem's number for uploads exactly one
radius apart in every round; with an adaptive radius it is not a theorem.

Neither is the epsilon of (epsilon, delta)-differential privacy, and neither may be added to one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray


def epsilon(*, n: int, noise_multiplier: float, radius: float) -> float:
    """epsilon = n / (nu * radius), per unit of distance (Algorithm 2, line 3)."""
    return n / (noise_multiplier * radius)


def release_epsilons(
    sizes: ArrayLike, *, noise_multiplier: float, radii: ArrayLike
) -> NDArray[np.float64]:
    """`epsilon` of many releases: float64, of the shape that `sizes` and `radii` make together.

    `sizes`: parameters of the parts that have noise of their own.
    """
    rates: NDArray[np.float64] = np.asarray(sizes) / (
        noise_multiplier * np.asarray(radii, dtype=np.float64)
    )
    return rates


def leakage(releases: float, *, n: int, noise_multiplier: float) -> float:
    """releases * n / nu by the paper's convention.

    `releases`: a whole number, or a mean or median of some. The product of integers is exact and
    divided once, in double precision, so that Python, SQLite and Postgres agree to the last bit;
    rounded costs are never summed.
    """
    return float(releases * n) / noise_multiplier


def leakages(releases: ArrayLike, *, n: ArrayLike, noise_multiplier: float) -> NDArray[np.float64]:
    """`leakage` of many: float64, of the shape that `releases` and `n` make together."""
    products = np.asarray(np.multiply(releases, n), dtype=np.float64)
    found: NDArray[np.float64] = products / noise_multiplier
    return found


def leakage_norm(sizes: Sequence[int], *, noise_multiplier: float) -> float:
    """The Euclidean norm of n_l / nu over the layers, of `sizes` n_l."""
    return math.hypot(*sizes) / noise_multiplier


def largest_participation(client_budget: float, n: int, noise_multiplier: float) -> int:
    """The largest number of releases whose leakage stays within the budget.

    Exact in the decimals of the request: a budget of 1.2 at n = 2 and nu = 5 allows 3.
    """
    cost = Fraction(n) / Fraction(repr(noise_multiplier))
    return math.floor(Fraction(repr(client_budget)) / cost)


def log_ratio_bound(*, epsilons: Sequence[float], distances: Sequence[float]) -> float:
    """The sum of epsilon_t * d_t (Theorem 4.2).

    It bounds the log-ratio of the densities of a transcript under two datasets whose uploads in
    round t lie `distances[t]` apart. The epsilons must be public, hence from a fixed radius.
    Raises ValueError where the two differ in length.
    """
    return math.fsum(rate * distance for rate, distance in zip(epsilons, distances, strict=True))


def worst_log_ratio(
    releases: int, *, sizes: Sequence[int], noise_multiplier: float, radius: float, clip: float
) -> float:
    """The theorem's sum over a run, between any two datasets that choose alike in every round.

    `sizes`: parameters of each layer with noise of its own, or of the whole vector. Two updates of
    one hypothesis, each clipped, lie within 2 * clip; over layers the sum of epsilon_l * d_l is at
    most that times the norm of the rates n_l / (nu * radius) (Cauchy and Schwarz).
    """
    rate = epsilon(n=1, noise_multiplier=noise_multiplier, radius=radius) * math.hypot(*sizes)
    return log_ratio_bound(epsilons=[rate] * releases, distances=[2 * clip] * releases)


def covers_every_pair(*, clip: float, radius: float, sizes: Sequence[int]) -> bool:
    """Whether n / nu bounds a release between any two datasets that choose alike, not only within
    the radius: whether `worst_log_ratio` of one release is at most n / nu.

    `sizes` as there; of the whole vector alone it is 2c <= r.
    """
    # At most 1, and exactly 1 for a single part: nothing is rounded then.
    share = math.hypot(*sizes) / sum(sizes)
    return 2 * clip * share <= radius


@dataclass(frozen=True)
class LeakageSummary:
    """The spread of leakage over the training clients, including those that never took part."""

    median: float
    maximum: float
    quantiles: dict[str, float]
    """By name: p05, p25, p50, p75, p95."""


QUANTILES = (5, 25, 50, 75, 95)


def training_releases(releases: NDArray[np.int32], *, training_clients: int) -> NDArray[np.int64]:
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


def summarise_leakage(
    releases: NDArray[np.int32], *, training_clients: int, n: int, noise_multiplier: float
) -> LeakageSummary:
    """Median, maximum and quantiles of releases * n / nu over the training clients.

    `releases`: int [clients], how often each client of the federation released an upload.
    Quantiles interpolate linearly between neighbouring clients.
    """
    ordered = training_releases(releases, training_clients=training_clients)
    levels = np.percentile(ordered, QUANTILES)
    named = {
        f"p{level:02d}": leakage(float(count), n=n, noise_multiplier=noise_multiplier)
        for level, count in zip(QUANTILES, levels, strict=True)
    }
    return LeakageSummary(
        median=named["p50"],
        maximum=leakage(int(ordered[-1]), n=n, noise_multiplier=noise_multiplier),
        quantiles=named,
    )
