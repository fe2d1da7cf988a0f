"""Two inputs under the Laplace mechanism: do their releases lie farther apart than the metric
guarantee allows?

With epsilon = n / (nu r) the laws of two inputs at distance d <= r differ by a factor of at most
exp(epsilon d) (Galli et al., Lemma 4.1). A fair coin chooses the input; a release is taken for the
one that it lies nearer to where it is nearer by a share of d that was fixed before. Whatever the
threshold, such guesses are right with a chance of at most 1 / (1 + exp(-epsilon d)), and the number
of right ones among those made is tested exactly (Clopper and Pearson).

A guess is as good as that only where the noise points along the difference of the inputs, which it
hardly ever does in many dimensions: then no number of releases tells half of the noise from all of
it, and the power says so.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import beta, binom

from fedaudit.privacy.lower_bounds.e_values import guesses_e_value, staked

LARGEST_LEAKAGE = 5.0
"""Beyond it, right guesses would have to be more certain than some thousands can show."""

_SHARES = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 0.01)
_THRESHOLDS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
_DRAWS = 100_000


@dataclass(frozen=True, kw_only=True)
class MetricTest:
    """What is tested, as decided before the run."""

    share: float
    """The inputs' distance over the radius."""
    threshold: float
    """How much nearer than to the other input a release must lie, over the distance."""
    leakage: float
    """The claim: n / nu times the share."""
    power: float


def plan_metric_test(
    *, n: int, noise_multiplier: float, releases: int, most_share: float, significance: float
) -> MetricTest | None:
    """The distance and the threshold with the largest power against half of the noise.

    `most_share`: the largest distance over the radius that a clip allows. None where the claim is
    beyond what can be tested at every distance.
    """
    generator = np.random.default_rng(n)
    best = None
    for share in (one * min(1.0, most_share) for one in _SHARES):
        leakage = n / noise_multiplier * share
        if leakage > LARGEST_LEAKAGE:
            continue
        closeness = _closeness(n, noise_multiplier / 2, share, generator)
        for threshold in _THRESHOLDS:
            power = _power(
                float((closeness > threshold).mean()),
                float((closeness < -threshold).mean()),
                releases=releases,
                leakage=leakage,
                significance=significance,
            )
            if best is None or power > best.power:
                best = MetricTest(share=share, threshold=threshold, leakage=leakage, power=power)
    return best


def least_leakage(*, right: int, wrong: int, significance: float) -> float:
    """A lower bound on the leakage from right and wrong guesses; 0 where there is no evidence."""
    if not right:
        return 0.0
    chance = float(beta.ppf(significance, right, wrong + 1))
    return max(0.0, float(logit(chance)))


def metric_e_value(*, right: int, wrong: int, leakage: float) -> float:
    """Evidence against the leakage claimed, from right and wrong guesses."""
    guesses = right + wrong
    p_value = float(binom.sf(right - 1, guesses, expit(leakage)))
    return staked(p_value, guesses_e_value(right=right, guesses=guesses, epsilon=leakage))


def _closeness(
    n: int, noise_multiplier: float, share: float, generator: np.random.Generator
) -> NDArray[np.float64]:
    """How much nearer releases lie to their own input than to the other, over the distance, for a
    radius of 1; [draws]. The noise matters along the difference and across it alone."""
    norm = generator.gamma(n, noise_multiplier / n, _DRAWS)
    along = generator.standard_normal(_DRAWS)
    across = generator.chisquare(n - 1, _DRAWS) if n > 1 else np.zeros(_DRAWS)
    cosine = along / np.sqrt(along * along + across)
    other = np.sqrt(np.maximum(0.0, norm**2 + 2 * norm * share * cosine + share**2))
    found: NDArray[np.float64] = (other - norm) / share
    return found


def _power(
    right: float, wrong: float, *, releases: int, leakage: float, significance: float
) -> float:
    """The chance that the bound passes the claim, for these chances of a right and a wrong guess.

    By the expected number of guesses; the wrong ones among them are binomial.
    """
    made = round(releases * (right + wrong))
    if not made or right <= wrong:
        return 0.0
    low, high = 0, made + 1
    while low < high:
        middle = (low + high) // 2
        found = least_leakage(right=made - middle, wrong=middle, significance=significance)
        low, high = (middle + 1, high) if found > leakage else (low, middle)
    return float(binom.cdf(low - 1, made, wrong / (right + wrong)))


def adaptive_log_ratio(
    *, near: NDArray[np.float64], far: NDArray[np.float64], small: bool, n: int, scale: float
) -> NDArray[np.float64]:
    """The logarithm of the likelihood ratio of releases under an adaptive radius, for inputs of
    norm 1 and 2 in one direction, their own law over the other's.

    `near`, `far` [releases]: distances to the smaller and the larger input; `small`: which is the
    releases' own; `scale`: 1 / epsilon of the smaller one, nu / n.
    """
    found: NDArray[np.float64] = n * np.log(2.0) + far / (2 * scale) - near / scale
    return found if small else -found
