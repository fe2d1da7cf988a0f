"""The bound from sums over releases, for noise of which less is left in a sum than in each release.

Noise may cancel (z, then -z), be drawn once for two releases, or depend over releases in any other
way. The covariance over releases is measured from half of the numbers, and with it the weighted sum
is chosen in which the noise is smallest beside the most that a unit can add to it: generalised
least squares, for a unit that is free to choose the sign of what it sends each time. The other half
of the numbers shows how far a canary comes through and how large the noise in that one sum is.
Noise is independent over the numbers of a release, so choosing the sum takes nothing from the
significance; and where noise is as claimed, no sum of releases tells more than all of them.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, logsumexp
from scipy.stats import chi2, t

from fedaudit.privacy.lower_bounds.gaussian_trade_off import gaussian_epsilon
from fedaudit.privacy.lower_bounds.known_noise import SignalFit
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw

NUMBERS_A_RELEASE = 4
"""Numbers that measure the covariance, for each release in the sum, at least."""
MOST_RELEASES = 64
_TINY = 1e-12
_TURNS = 30
_STEPS = 1000
_FAR = 40.0
_MOST_RATIO = 1e3
_DRAWS = 4000


@dataclass(frozen=True, eq=False)
class QuietSum:
    """The sum of releases that tells most of a unit, by noise that was measured."""

    weights: NDArray[np.float64]
    """[releases]. A unit that chooses its signs adds its own length to the sum."""
    precision: NDArray[np.float64]
    """[releases, releases]: the inverse of the covariance."""

    @classmethod
    def of_noise(cls, noise: NDArray[np.float64], moments: NDArray[np.int64]) -> Self:
        """By `noise` [releases, numbers]; a unit sends the same to releases of one number in
        `moments` [releases]."""
        covariance = noise @ noise.T / noise.shape[1]
        size = float(np.trace(covariance)) / len(noise) or 1.0
        precision = np.linalg.inv(covariance + _TINY * size * np.eye(len(noise)))
        entering = (moments[:, None] == np.unique(moments)).astype(np.float64)
        # Of signs c the sum's squared ratio is c' gained c; turning signs never lowers it.
        gained = entering.T @ (precision + precision.T) @ entering / 2
        signs = np.column_stack([np.ones(len(gained)), np.linalg.eigh(gained)[1]])
        for _ in range(_TURNS):
            signs = np.where(gained @ signs < 0, -1.0, 1.0)
        weights = precision @ entering @ signs[:, np.argmax((signs * (gained @ signs)).sum(0))]
        return cls(weights / np.abs(entering.T @ weights).sum(), precision)

    def least_ratio(
        self,
        released: NDArray[np.float64],
        signal: NDArray[np.float64],
        *,
        significance: float,
    ) -> float:
        """A lower bound on a unit's length over the deviation of the sum, from numbers [releases,
        numbers] that did not measure the noise.

        Half of the significance goes to the length, by all releases (generalised least squares,
        with the error that its residuals show), and half to the deviation.
        """
        pulled = self.precision @ signal
        found, weight = (pulled * released).sum(0), (pulled * signal).sum(0)
        reached = int((weight > 0).sum())
        if reached < 2:
            return 0.0
        length = float(found.sum() / weight.sum())
        spread = float(np.square(found - length * weight).sum()) * reached / (reached - 1)
        error = math.sqrt(spread) / float(weight.sum())
        least = length - float(t.isf(significance / 2, reached - 1)) * error
        seen, sent = self.weights @ released, self.weights @ signal
        fit = SignalFit(
            product=float(seen @ sent),
            weight=float(sent @ sent),
            squares=float(seen @ seen),
            numbers=len(seen),
        )
        freedom = len(seen) - 1
        largest = (fit.deviation or 0.0) * math.sqrt(
            freedom / float(chi2.ppf(significance / 2, freedom))
        )
        return min(max(0.0, least) / max(largest, 1 / _MOST_RATIO), _MOST_RATIO)


def summed_epsilon(law: ReleaseLaw, lengths: NDArray[np.float64], delta: float) -> float:
    """The epsilon at `delta` of a sum, at least.

    `lengths` [moments]: what a unit adds to the sum at each moment that it enters, over the
    deviation of the noise in it.
    """
    if not law.is_sampled:
        return gaussian_epsilon(law.reach * float(lengths.sum()), delta)
    chances, sums = _entered(lengths, law.rate)
    thresholds = np.union1d(
        np.linspace(-_FAR / 8, _FAR, _STEPS), np.linspace(0.0, float(sums[-1]), _STEPS)
    )[:, None]
    absent = -sums if law.adjacency == "replace-one" else 0 * sums
    there = np.exp(logsumexp(chances + log_ndtr(sums - thresholds), axis=1))
    otherwise = logsumexp(chances + log_ndtr(absent - thresholds), axis=1)
    telling = there > delta
    if not telling.any():
        return 0.0
    return max(0.0, float((np.log(there[telling] - delta) - otherwise[telling]).max()))


def _entered(
    lengths: NDArray[np.float64], rate: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of chances, and the sums that coins of this rate make of the lengths, each rounded
    down, which tells less than there is."""
    step = float(lengths.sum()) / _STEPS or 1.0
    chances = np.zeros(_STEPS + 1)
    chances[0] = 1.0
    for length in lengths:
        by = math.floor(length / step)
        chances = (1 - rate) * chances + rate * np.roll(chances, by)
    with np.errstate(divide="ignore"):
        return np.log(chances), step * np.arange(_STEPS + 1, dtype=np.float64)


def releases_in_sum(releases: int, numbers: int) -> int:
    """How many releases are summed, where so many numbers of each are kept; 0 for less than two."""
    found = min(releases, MOST_RELEASES, numbers // (2 * NUMBERS_A_RELEASE))
    return found if found > 1 else 0


def summed_power(
    law: ReleaseLaw, *, claimed: float, weight: float, numbers: int, significance: float
) -> float:
    """The chance that the bound passes the ratio `claimed` of a release where the noise is half of
    the law's; 0 where the law is sampled, since adding up loses too much there.

    `weight`: of the canaries in one release, as in `SignalFit`; `numbers`: kept of each release.
    """
    count = releases_in_sum(law.compositions, numbers)
    reached, measured = round(weight), numbers // 2
    if law.is_sampled or not count or reached < 2:
        return 0.0
    generator, freedom = np.random.default_rng(count), numbers - measured - 1
    ratio = 2 * law.ratio / law.reach
    error = 1 / (ratio * math.sqrt(weight * count))
    length = 1 + error * generator.standard_normal(_DRAWS)
    shown = error * np.sqrt(generator.chisquare(reached - 1, _DRAWS) / (reached - 1))
    least = length - float(t.isf(significance / 2, reached - 1)) * shown
    largest = np.sqrt(
        generator.chisquare(freedom, _DRAWS) / float(chi2.ppf(significance / 2, freedom))
    )
    # Measuring a covariance of so many releases costs this share of what the best sum would tell.
    told = ratio * math.sqrt(count * (1 - count / measured))
    needed = claimed / law.reach * math.sqrt(law.compositions)
    return float((told * least / largest > needed).mean())
