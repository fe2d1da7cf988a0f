"""Exact intervals of shares: of independent trials, and of trials in clusters."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, stdtrit

from fedaudit.reports.sections.attacks import ConfidenceLimits


def clopper_pearson(hits: float, trials: float, *, confidence: float) -> ConfidenceLimits:
    """The two-sided interval of Clopper and Pearson (1934), whose coverage is never below
    `confidence`.

    `hits` and `trials` need not be whole numbers, as in `effective_trials`. Raises ValueError
    without a trial.
    """
    if not 0 <= hits <= trials or trials <= 0:
        raise ValueError(f"{hits} hits of {trials} trials have no interval")
    tail = (1 - confidence) / 2
    misses = trials - hits
    low = 0.0 if hits == 0 else float(betaincinv(hits, misses + 1, tail))
    high = 1.0 if misses == 0 else float(betaincinv(hits + 1, misses, 1 - tail))
    return ConfidenceLimits(low=low, high=high)


def clustered_interval(
    hits: NDArray[np.bool_], clusters: NDArray[np.int64], *, confidence: float
) -> ConfidenceLimits:
    """The interval of a share of trials that are alike within clusters (Korn and Graubard 1998).

    Clopper and Pearson's for as many independent trials as would have the variance that the
    clusters show; never for more than there are. `hits`, `clusters` [trials]: whether each was a
    hit, and which cluster it is of. Raises ValueError without a trial.
    """
    worth = effective_trials(hits, clusters, confidence=confidence)
    share = float(hits.mean()) if len(hits) else 0.0
    return clopper_pearson(worth * share, worth, confidence=confidence)


def effective_trials(
    hits: NDArray[np.bool_], clusters: NDArray[np.int64], *, confidence: float
) -> float:
    """How many independent trials clustered ones are worth.

    Clusters that are all hits, or all misses, show no variance: then each is worth one trial, which
    is the least.
    """
    of_cluster = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(of_cluster)
    count, trials = len(sizes), len(hits)
    share = float(hits.mean()) if trials else 0.0
    if count in (0, 1, trials) or share in (0.0, 1.0):
        return float(count)
    own = np.bincount(of_cluster, weights=hits.astype(np.float64))
    spread = float(((own - share * sizes) ** 2).sum())
    variance = count / (count - 1) * spread / trials**2
    independent = share * (1 - share) / trials
    if variance <= 0:
        return float(trials)
    tail = (1 - confidence) / 2
    # The variance is itself estimated, from as many clusters.
    ratio = float(stdtrit(trials - 1, tail) / stdtrit(count - 1, tail)) ** 2
    return min(float(trials), trials * independent / variance * ratio)
