"""RMIA: a row's likelihood under the run, relative to what is usual of it and of other rows
(Zarifzadeh, Liu and Shokri, "Low-cost high-power membership inference attacks", 2024, section 3).

A row is held against all other rows of the pool, since the attacker does not know which of them are
no members. Its score is the share of rows z with (Pr(x | theta) / Pr(x)) / (Pr(z | theta) / Pr(z))
of at least gamma. Pr(x) is the mean over the shadow runs, with and without the row half each.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, logsumexp
from scipy.stats import rankdata

from fedaudit.attacks.membership.shadow_runs import ShadowObservations

GAMMA = 2.0
"""The paper's."""


def relative_likelihoods(
    target: NDArray[np.float64],
    shadows: ShadowObservations,
    *,
    residuals: bool,
    gamma: float = GAMMA,
) -> NDArray[np.float64]:
    """The score of each row, the share of rows that it dominates: [rows]. Its ratio settles ties.

    `target` [rows]: statistics under the attacked run; `residuals` as in `likelihood_ratios`. The
    likelihood of a residual is that of a normal number, whose variance is that of the residuals of
    rows that the shadow runs did not train on.
    """
    spread = _spread(shadows) if residuals else 1.0
    own = _log_likelihood(target, residuals=residuals, spread=spread)
    ratio = own - _usual(shadows, residuals=residuals, spread=spread)
    # What has overflowed fits nothing.
    ratio = np.nan_to_num(ratio, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    dominated = np.searchsorted(np.sort(ratio), ratio - np.log(gamma), side="right")
    # A share grows with the ratio in steps of one row; the ratio's rank orders those on one step.
    shares: NDArray[np.float64] = (dominated + rankdata(ratio) / (len(ratio) + 1)) / len(ratio)
    return shares


def _usual(shadows: ShadowObservations, *, residuals: bool, spread: float) -> NDArray[np.float64]:
    """The logarithm of the mean likelihood of each row over the shadow runs: [rows]."""
    likelihood = _log_likelihood(shadows.statistic, residuals=residuals, spread=spread)
    sides = []
    for side in (shadows.trained, ~shadows.trained):
        counted = side & np.isfinite(likelihood)
        total = logsumexp(np.where(counted, likelihood, -np.inf), axis=0)
        sides.append(total - np.log(np.maximum(counted.sum(0), 1)))
    return np.asarray(np.logaddexp(*sides) - np.log(2))


def _log_likelihood(
    statistic: NDArray[np.float64], *, residuals: bool, spread: float
) -> NDArray[np.float64]:
    if residuals:
        return np.asarray(-0.5 * (statistic / spread) ** 2)
    return np.asarray(log_expit(statistic))


def _spread(shadows: ShadowObservations) -> float:
    """The root of the mean square of residuals of rows that were not trained on."""
    own = shadows.statistic[~shadows.trained]
    own = own[np.isfinite(own)]
    return max(float(np.sqrt(np.mean(own**2))), float(np.finfo(np.float64).tiny)) if len(own) else 1
