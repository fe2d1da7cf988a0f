"""What the releases of a mechanism disclose of one unit: (sampled) Gaussian noise, composed.

The law is that of the strongest adversary of the guarantee, who knows everything but whether the
unit is there, or which of two it is. Upper bounds on it are the claim's; here bounds from below are
needed too, so that what is measured is never called more than it is.

Exact epsilon of Gaussian differential privacy (Dong, Roth and Su 2022, corollary 1; Balle and
Wang 2018, theorem 8): two normal laws of variance 1 whose means lie mu apart.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from fedaudit.arrays import Bools, Floats
from fedaudit.privacy.accounting.accountant import library_relation
from fedaudit.privacy.accounting.privacy_events import Adjacency
from fedaudit.privacy.accounting.random_allocation import allocation_loss

_MOST = 1e6
"""Largest mu: above it there is no privacy that a figure could show."""


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The least delta with which mu-Gaussian differential privacy is (epsilon, delta)-private."""
    if mu <= 0:
        return 0.0
    high = float(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
    low = epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu))
    # exp(high) - exp(low), also where both are tiny or epsilon is large
    return math.exp(high) * max(0.0, -math.expm1(min(0.0, low - high)))


@lru_cache(maxsize=4096)
def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon at `delta`; 0 where mu is so small that delta alone covers it.

    Raises ValueError for a delta not within 0 and 1, or a mu that is negative or not a number.
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta = {delta} must lie between 0 and 1")
    if not mu >= 0:
        raise ValueError(f"mu = {mu} must not be negative")
    mu = min(mu, _MOST)
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    most = mu * mu / 2 + mu * (math.sqrt(2 * math.log(1 / delta)) + 1)
    return float(
        scipy.optimize.brentq(
            lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, most, xtol=1e-12
        )
    )


Curve = Callable[[float], float]
"""Maps the power of a test to the least chance of a false alarm with which it can be had."""

_LOSSES = 4000
"""Steps that the losses of one release are rounded to, in the direction that keeps a bound."""
_CURVE_POINTS = 150
_LARGEST_LOSS = 60.0
_LARGEST_EPSILON = 700.0
"""Above about 709 the library's quotient overflows, and its epsilon is infinite: a smaller lower
bound still holds, and a report can state it."""
_MOST_RATIO = 1e3
_LEAST_RATIO = 1e-6


@dataclass(frozen=True, kw_only=True)
class ReleaseLaw:
    """`compositions` releases, each of which the unit enters with the chance `rate`: by a coin for
    each, or in exactly one of every `block` of them."""

    ratio: float
    """How far apart the two neighbours move a release that the unit enters, over the standard
    deviation of the noise."""
    rate: float
    compositions: int
    adjacency: Adjacency
    block: int | None = None
    """Releases of a block of random allocation, 1 / `rate`; None where coins decide."""

    @property
    def is_sampled(self) -> bool:
        """Whether secret coins decide if the unit enters a release."""
        return self.rate < 1

    @property
    def reach(self) -> int:
        """How many times its own length a unit's change moves a release."""
        return 2 if self.adjacency == "replace-one" else 1

    @property
    def mu(self) -> float:
        """Parameter of Gaussian differential privacy; only for a law that is not sampled."""
        return self.ratio * math.sqrt(self.compositions)

    def with_ratio(self, ratio: float) -> "ReleaseLaw":
        """The same with other noise."""
        return replace(self, ratio=ratio)

    def epsilon(self, delta: float) -> float:
        """The epsilon at `delta`: exact, or where it is sampled a lower bound by privacy loss
        distributions, rounded down."""
        if not self.ratio > 0:
            return 0.0
        if not self.is_sampled:
            return gaussian_epsilon(self.mu, delta)
        law = self.with_ratio(min(self.ratio, _MOST_RATIO))
        found = float(_distribution(law, pessimistic=False).get_epsilon_for_delta(delta))
        return min(max(0.0, found), _LARGEST_EPSILON)

    def ratio_of_epsilon(self, epsilon: float, delta: float) -> float:
        """The ratio at which `epsilon` is reached at `delta`."""

        def excess(ratio: float) -> float:
            return self.with_ratio(ratio).epsilon(delta) - epsilon

        low = high = self.ratio
        while high < _MOST_RATIO and excess(high) < 0:
            low, high = high, 1.5 * high
        while low > _LEAST_RATIO and excess(low) > 0:
            low, high = low / 1.5, low
        if excess(high) < 0 or excess(low) > 0:
            return high if excess(high) < 0 else low
        return float(scipy.optimize.brentq(excess, low, high, xtol=1e-9, rtol=1e-4))

    def curve(self) -> Curve:
        """The trade-off between power and false alarms: exact, or where it is sampled a bound that
        no test passes."""
        if self.is_sampled:
            epsilons, deltas = _profile(self)

            def sampled(power: float) -> float:
                """The largest of the bounds that each epsilon gives, from both sides."""
                ahead = np.exp(-epsilons) * (power - deltas)
                behind = 1 - deltas - np.exp(epsilons) * (1 - power)
                return max(0.0, float(ahead.max()), float(behind.max()))

            return sampled
        mu = self.mu
        return lambda power: float(
            scipy.special.ndtr(scipy.special.ndtri(min(max(power, 0.0), 1.0)) - mu)
        )


def _distribution(law: ReleaseLaw, *, pessimistic: bool) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as library

    if law.block is not None:
        # A block that was begun is not counted in full where the bound is from below.
        blocks = (law.compositions + pessimistic * (law.block - 1)) // law.block
        one = allocation_loss(law.block, law.reach / law.ratio, pessimistic=pessimistic)
        return one.self_compose(blocks) if blocks else library.identity()
    one = library.from_gaussian_mechanism(
        law.reach / law.ratio,
        sampling_prob=law.rate,
        pessimistic_estimate=pessimistic,
        use_connect_dots=pessimistic,
        value_discretization_interval=(law.ratio**2 / 2 + 10 * law.ratio) / _LOSSES,
        neighboring_relation=library_relation(law.adjacency),
    )
    return one.self_compose(law.compositions)


@lru_cache(maxsize=256)
def _profile(law: ReleaseLaw) -> tuple[Floats, Floats]:
    """Epsilons, and upper bounds of the deltas at these."""
    epsilons = np.concatenate([[0.0], np.geomspace(1e-3, _LARGEST_LOSS, _CURVE_POINTS)])
    distribution = _distribution(law, pessimistic=True)
    deltas = np.asarray(distribution.get_delta_for_epsilon(epsilons.tolist()), dtype=np.float64)
    return epsilons, np.clip(deltas, 0.0, 1.0)


_MOST_NUMBERS = 20_000_000
_MOMENT_DRAWS = 200_000


def evidence(signals: Floats, law: ReleaseLaw) -> Floats:
    """The logarithm of the likelihood ratio of each release, under the claimed law; to be added up.

    `signals`: what is left of a release in a canary's direction, in lengths of a canary: around 1
    where it took part, and around 0, or -1 where another replaced it.
    """
    variance = (law.reach / law.ratio) ** 2
    if not law.is_sampled:
        return signals * (law.reach / variance)
    kept, rate = math.log1p(-law.rate), math.log(law.rate)
    there = np.logaddexp(kept, rate + (signals - 0.5) / variance)
    if law.adjacency == "add-or-remove-one":
        return there
    return there - np.logaddexp(kept, rate + (-signals - 0.5) / variance)


def simulated(
    law: ReleaseLaw, *, ratio: float, canaries: int, draws: int, generator: np.random.Generator
) -> tuple[Floats, Bools]:
    """Scores and coins [draws, canaries] under a true `ratio`, scored as `law` has it.

    Of long sampled runs the sum over releases is drawn as the normal number of its moments.
    """
    coins = generator.random((draws, canaries)) < 0.5
    sent = np.where(coins, 1.0, -1.0 if law.adjacency == "replace-one" else 0.0)
    deviation = law.reach / ratio
    if not law.is_sampled:
        noise = generator.standard_normal(sent.shape) * deviation / math.sqrt(law.compositions)
        return evidence(sent + noise, law), coins
    if sent.size * law.compositions > _MOST_NUMBERS:
        return _by_moments(law, sent, coins, deviation, generator), coins
    scores = np.zeros(sent.shape)
    chosen = np.zeros(sent.shape, dtype=np.int64)
    for release in range(law.compositions):
        entered = generator.random(sent.shape) < law.rate
        if law.block is not None:
            if release % law.block == 0:
                chosen = generator.integers(law.block, size=sent.shape)
            entered = chosen == release % law.block
        signals = sent * entered + generator.standard_normal(sent.shape) * deviation
        scores += evidence(signals, law)
    return scores, coins


def _by_moments(
    law: ReleaseLaw, sent: Floats, coins: Bools, deviation: float, generator: np.random.Generator
) -> Floats:
    scores = np.empty(sent.shape)
    for side in (False, True):
        length = 1.0 if side else (-1.0 if law.adjacency == "replace-one" else 0.0)
        entered = generator.random(_MOMENT_DRAWS) < law.rate
        noise = generator.standard_normal(_MOMENT_DRAWS) * deviation
        one = evidence(length * entered + noise, law)
        own = coins == side
        # That a unit enters a block exactly once takes away what the number of its coins varies:
        # the variances among those that entered a release, and those that did not, are left.
        varies = one.var()
        if law.block is not None:
            parts = [part for part in (one[entered], one[~entered]) if len(part)]
            varies = sum(len(part) * part.var() for part in parts) / len(one)
        spread = math.sqrt(varies * law.compositions)
        scores[own] = one.mean() * law.compositions + spread * generator.standard_normal(own.sum())
    return scores
