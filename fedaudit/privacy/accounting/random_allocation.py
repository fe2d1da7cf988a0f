"""What a block of rounds reveals of a client that takes part in exactly one of them, at random.

In a block of t rounds a client adds its clipped update to one sum, in a round drawn uniformly and
kept secret; every sum gets Gaussian noise of sigma clips. Blocks draw anew and are composed. This
is random allocation (Feldman and Shenfeld, "Privacy amplification by random allocation", 2025), or
balls-and-bins sampling (Chua et al. 2025), under zero-out.

Let Q be the law of the block's outputs where the client sends nothing, and P where it takes part.
With z_i the standard normal noise of round i along the update, the likelihood ratio dP/dQ is, for
updates as long as the clip,

    S = (Y_1 + ... + Y_t) / t,   Y_i = exp(z_i / sigma - 1 / (2 sigma^2))

with independent z_i under Q. All that an accountant asks about are means under Q of convex
functions of S: the hockey-stick divergence from P to Q is the mean of (S - e)+, the one from Q to P
that of (1 - e S)+, and the Renyi divergences follow from powers. A shorter update, or one that is
chosen by the rounds before, makes S less in the convex order: exp(c z - c^2 / 2) is a martingale in
c^2, round by round, given the past. So the pair above dominates a block whatever else it computes,
and dominating pairs compose (Zhu et al. 2022, theorem 10).

For the same reason the law of S may be computed on a grid: mass between two points goes to both, so
that the mean stays, which only moves it up in the convex order. The error is of second order in the
step. What is beyond the last point is cut down to it, and the mean that is lost thereby counts as
mass of infinite loss: (S - e)+ changes by no more than S does.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
import scipy

from fedaudit.arrays import Floats

Summand = TypeVar("Summand")
FINE, COARSE = 4096, 1024
"""Points of the grid. Four times as many take sixteen times as long; every number bounds."""
_LEAST_NOISE = 0.05
"""Below it the ratios leave the range of floats, and epsilon means nothing: a block is then counted
as one round that the client is known to take part in, which reveals no less."""
_REACH = 9.0
"""Standard deviations of a round's noise that the grid covers; beyond lie 1e-19."""


@dataclass(frozen=True, eq=False)
class _Law:
    """An upper bound, in the convex order, on the law of a sum of likelihood ratios under Q.

    The masses lie at exp(step * (lowest + place)), and at zero.
    """

    step: float
    lowest: int
    masses: Floats
    at_zero: float

    def points(self) -> Floats:
        """Where the masses lie: float64 [points]."""
        found: Floats = np.exp(self.step * (self.lowest + np.arange(len(self.masses))))
        return found

    def plus(self, other: "_Law", *, lower: bool) -> "_Law":
        """The law of the sum of two independent ones on one grid, brought back onto the grid.

        exp(a) + exp(b) = exp(a + log1p(exp(b - a))), so how far a sum is above the larger one
        depends on their distance alone: all pairs of one distance are moved together.
        """
        count, step = len(self.masses), self.step
        found = np.zeros(count + 1)
        for distance in range(count):
            above = math.log1p(math.exp(-distance * step)) / step
            low = math.floor(above)
            # Between two points, in shares that keep the mean.
            share = 0.0 if lower else math.expm1((above - low) * step) / math.expm1(step)
            larger = self.masses[distance:] * other.masses[: count - distance]
            if distance:
                larger = larger + other.masses[distance:] * self.masses[: count - distance]
            _add(found, larger * (1 - share), at=distance + low)
            _add(found, larger * share, at=distance + low + 1)
        found[:-1] += self.at_zero * other.masses + other.at_zero * self.masses
        found[-2] += found[-1]
        return _Law(step, self.lowest, found[:-1], self.at_zero * other.at_zero)


def _add(found: Floats, masses: Floats, *, at: int) -> None:
    """Adds masses from a place on; what would lie beyond the last place is put there."""
    inside = max(0, len(found) - at)
    found[at : at + len(masses)] += masses[:inside]
    found[-1] += masses[inside:].sum()


def _one_round(rounds: int, noise_multiplier: float, *, points: int, lower: bool) -> _Law:
    """The law of one Y_i over the number of rounds."""
    gap = 1 / noise_multiplier
    ends = np.array([-_REACH, _REACH + gap]) * gap - gap**2 / 2 - math.log(rounds)
    step = float(ends[1] - ends[0] + math.log(rounds)) / points
    lowest = math.floor(ends[0] / step)
    logs = step * (lowest + np.arange(points + 2))
    # Of the noise: the chance under Q, and the mean, of each interval between two points.
    edges = np.concatenate([[-np.inf], (logs + math.log(rounds) + gap**2 / 2) / gap, [np.inf]])
    chance, mean = _between(edges), _between(edges - gap) / rounds
    at = np.exp(logs)
    upper = np.clip((mean[1:-1] - chance[1:-1] * at[:-1]) / np.diff(at), 0, chance[1:-1])
    if lower:
        upper = np.zeros_like(upper)
    masses = np.zeros(len(at))
    masses[1:] += upper
    masses[:-1] += chance[1:-1] - upper
    # Below the first point, between it and zero; above the last one, cut down to it.
    first = 0.0 if lower else min(chance[0], mean[0] / at[0])
    masses[0] += first
    masses[-1] += chance[-1]
    return _Law(step, lowest, masses, float(chance[0] - first))


def _between(edges: Floats) -> Floats:
    """The chance of a standard normal number between neighbouring edges; tails keep their
    digits."""
    below, above = scipy.special.ndtr(edges), scipy.special.ndtr(-edges)
    found: Floats = np.where(edges[:-1] > 0, above[:-1] - above[1:], below[1:] - below[:-1])
    return found


@lru_cache(maxsize=64)
def _law_of_block(
    rounds: int, noise_multiplier: float, *, points: int, lower: bool = False
) -> _Law:
    """The law of S, by doubling; with `lower` rounded down instead, number by number."""
    one = _one_round(rounds, noise_multiplier, points=points, lower=lower)
    return _added_up(one, rounds, partial(_Law.plus, lower=lower))


def _added_up(one: Summand, count: int, plus: Callable[[Summand, Summand], Summand]) -> Summand:
    """So many of the same, by doubling."""
    doubled, left, total = one, count, None
    while True:
        if left % 2:
            total = doubled if total is None else plus(total, doubled)
        left //= 2
        if not left:
            assert total is not None
            return total
        doubled = plus(doubled, doubled)


def allocation_loss(
    rounds: int, noise_multiplier: float, *, points: int = FINE, pessimistic: bool = True
) -> Any:
    """The privacy loss distribution of one block, of dp-accounting's type.

    `rounds`: of a block. `noise_multiplier`: sigma, standard deviation of the noise over the clip.
    Where it is not `pessimistic`, every figure of it and of its compositions is a lower bound: only
    the direction from P to Q is counted, with a smaller S and a smaller chance of it.
    """
    from dp_accounting.pld.pld_pmf import DensePLDPmf
    from dp_accounting.pld.privacy_loss_distribution import (
        PrivacyLossDistribution,
        from_gaussian_mechanism,
    )

    if not pessimistic:
        law = _law_of_block(rounds, max(noise_multiplier, _LEAST_NOISE), points=points, lower=True)
        there = law.masses * law.points()
        return PrivacyLossDistribution(DensePLDPmf(law.step, law.lowest, there, 0.0, False))
    if noise_multiplier < _LEAST_NOISE:
        return from_gaussian_mechanism(noise_multiplier)
    law = _law_of_block(rounds, noise_multiplier, points=points)
    there = law.masses * law.points()
    taking_part = DensePLDPmf(law.step, law.lowest, there, _missing(there), True)
    highest = law.lowest + len(law.masses) - 1
    absent = DensePLDPmf(law.step, -highest, law.masses[::-1].copy(), _missing(law.masses), True)
    return PrivacyLossDistribution(taking_part, absent)


def _missing(masses: Floats) -> float:
    """What masses lack of 1: what was cut off, is at zero, or was lost by rounding."""
    return max(0.0, 1.0 - math.fsum(masses))


def allocation_curve(rounds: int, noise_multiplier: float, orders: Sequence[float]) -> Floats:
    """Renyi divergences of one block that no pair of neighbours exceeds: float64 [orders].

    `orders`: above 1. `rounds`, `noise_multiplier`: as in `allocation_loss`.
    """
    alpha = np.array(orders, dtype=np.float64)
    # A round that the client is known to take part in reveals no less: divergences are convex.
    most: Floats = alpha / (2 * noise_multiplier**2)
    if noise_multiplier < _LEAST_NOISE:
        return most
    there = _log_moments(rounds, noise_multiplier, math.ceil(alpha.max()))
    low = np.floor(alpha).astype(np.int64)
    # (order - 1) times the divergence is convex in the order, so a line bounds it in between.
    share = alpha - low
    taking_part = (1 - share) * there[low] + share * there[np.minimum(low + 1, len(there) - 1)]
    absent = np.array([_log_inverse_moment(rounds, noise_multiplier, one) for one in alpha])
    found = np.maximum(taking_part, absent) / (alpha - 1)
    bounded: Floats = np.minimum(most, np.maximum(found, 0.0))
    return bounded


def _log_moments(rounds: int, noise_multiplier: float, most: int) -> Floats:
    """log of the mean of S^k under Q, exact, for k = 0 .. `most`: float64 [most + 1].

    The k-th moment of one Y is exp(k (k - 1) / (2 sigma^2)); those of sums of independent numbers
    follow by the binomial theorem.
    """
    power = np.arange(most + 1)
    chosen = scipy.special.gammaln(power + 1)

    def together(one: Floats, other: Floats) -> Floats:
        # Divided by factorials, the theorem is a convolution.
        return np.array([np.logaddexp.reduce(one[: k + 1] + other[k::-1]) for k in power.tolist()])

    each = power * (power - 1) / (2 * noise_multiplier**2) - chosen
    total = _added_up(each, rounds, together)
    moments: Floats = total + chosen - power * math.log(rounds)
    return moments


def _log_inverse_moment(rounds: int, noise_multiplier: float, order: float) -> float:
    """A bound on the log of the mean of S^(1 - order) under Q.

    Where at least one Y is on the grid, so is S, and the law on the grid bounds the mean. Where
    none is, S is at least the geometric mean of the Y, whose powers are independent.
    """
    law, gap = _law_of_block(rounds, noise_multiplier, points=COARSE), 1 / noise_multiplier
    some = law.masses > 0
    logs = law.step * (law.lowest + np.flatnonzero(some))
    on_grid = np.logaddexp.reduce(np.log(law.masses[some]) + (1 - order) * logs)
    power = (1 - order) / rounds
    one = power * (power - 1) * gap**2 / 2 + scipy.special.log_ndtr(-_REACH - power * gap)
    return float(np.logaddexp(on_grid, rounds * one))
