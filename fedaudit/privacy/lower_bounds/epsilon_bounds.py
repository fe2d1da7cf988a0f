"""Lower bounds on epsilon by canaries, each with what it assumes.

Coins are guessed from the canaries' scores: the canaries with the highest scores are taken for
present, and those with the lowest for absent, as many of each as was decided before the run.

The bound for Gaussian noise compares how far a canary moves a release with the noise beside it. A
release less all that is known of it is y = s x + noise. Here x is the sum of the directions that
canaries sent (the coins are ours), and s is the length with which a canary comes through. Least
squares give s, and the residuals give the deviation of the noise. The ratio of the two has
Student's t distribution off its centre, exactly. So the bound holds at its significance for any
number of canaries, and not only in the limit. If one release per direction is seen in full, s is
the mean of the scores of the canaries that are there (or the difference of means, if the others
send the opposite). The deviation is measured and not taken from the claim. Noise that is half of
what is claimed moves no mean, so no comparison of means with the claimed deviation would detect it.

The one-run bound assumes nothing but the definition: Steinke, Nasr and Jagielski ("Privacy auditing
with one (1) training run", 2023, theorem 5.2). Each of m canaries has a fair coin. From the output
r coins are guessed, and v guesses are right. Under an (epsilon, delta)-private mechanism v or more
are right with a chance of at most P[B >= v] + 2 m delta a. Here B is binomial, of r trials with the
chance e^epsilon / (1 + e^epsilon), and a is the largest P[v > B >= v - i] / i.

The one-run bound against a whole privacy curve is that of Mahloujifar, Melis and Chaudhuri
("Auditing f-differential privacy in one run", 2024). Let p_j be the chance of exactly j correct
guesses among r of m canaries. Let right(c) be the sum of (j / m) p_j over j >= c, and wrong(c) that
of ((r - j) / m) p_j: the chance that a canary drawn at random is guessed rightly (wrongly) and that
at least c guesses are right. Turning that canary's coin over turns "right, at least c" into "wrong,
at least c - 1". So the curve f relates the two: wrong(c - 1) >= f(right(c)), where f is the least
chance of a false alarm of a test with that power. And right(c - 1) - right(c) is (c - 1) / (r - c +
1) times wrong(c - 1) - wrong(c). Let v or more correct guesses be as likely as the significance,
and go down from v to 0. If right(c) + wrong(c) then exceeds r / m, which is all there is, v correct
guesses refute the curve.

The bound from sums over releases is for noise of which less is left in a sum than in each release.
Noise may cancel (z, then -z), be drawn once for two releases, or depend over releases in any other
way. Half of the numbers measure the covariance over releases. It gives the weighted sum in which
the noise is smallest beside the most that a unit can add to it: generalised least squares, for a
unit that is free to choose the sign of what it sends each time. The other half of the numbers shows
how far a canary comes through, and how large the noise in that one sum is. Noise is independent
over the numbers of a release, so choosing the sum takes nothing from the significance. If noise is
as claimed, no sum of releases reveals more than all of them.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from fedaudit.arrays import Bools, Floats, Ints
from fedaudit.privacy.lower_bounds.release_law import Curve, ReleaseLaw, gaussian_epsilon, simulated

_SHARES = (0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 0.01)


@dataclass(frozen=True)
class GuessTest:
    """How coins are guessed for one bound, as decided before the run."""

    canaries: int
    """The first so many are its canaries; the coins of the others are taken as given."""
    present: int
    """The highest scores, guessed to be present."""
    absent: int
    """The lowest."""
    power: float = 0.0

    @property
    def guesses(self) -> int:
        """All of them."""
        return self.present + self.absent

    def correct(self, ordered: Bools) -> Ints:
        """Correct guesses, [...], of coins [..., canaries] in the order of their scores."""
        right = ordered[..., ordered.shape[-1] - self.present :].sum(-1)
        found: Ints = right + (~ordered[..., : self.absent]).sum(-1)
        return found

    def guessed(self, scores: Floats) -> NDArray[np.int8]:
        """[canaries]: 1 for present, -1 for absent, 0 for none."""
        order = np.argsort(scores, kind="stable")
        found = np.zeros(len(scores), dtype=np.int8)
        found[order[len(scores) - self.present :]] = 1
        found[order[: self.absent]] = -1
        return found

    def counts(self, scores: Floats, coins: Bools) -> Mapping[str, int]:
        """Canaries, guesses, and correct guesses after the run."""
        own = slice(self.canaries)
        correct = int(self.correct(by_score(scores[own], coins[own])))
        return {"canaries": self.canaries, "guesses": self.guesses, "correct": correct}


def by_score(scores: Floats, coins: Bools) -> Bools:
    """The coins [..., canaries] in the order of their scores, the lowest first."""
    order = np.argsort(scores, axis=-1, kind="stable")
    return np.take_along_axis(coins, order, axis=-1)


def possible_tests(canaries: int) -> list[GuessTest]:
    """Tests to choose from before a run: equally many of both, or the highest alone."""
    counts = sorted({int(share * canaries) for share in _SHARES} - {0})
    return [GuessTest(canaries, count, absent) for count in counts for absent in (count, 0)]


_MOST_RATIO = 1e6


@dataclass
class SignalFit:
    """Sums over all numbers that were released, from which the fit follows."""

    product: float = 0.0
    """Product of y and x."""
    weight: float = 0.0
    """Product of x and x."""
    squares: float = 0.0
    """Product of y and y."""
    numbers: int = 0

    def add(self, *, product: float, weight: float, squares: float, numbers: int) -> None:
        self.product += product
        self.weight += weight
        self.squares += squares
        self.numbers += numbers

    @property
    def deviation(self) -> float | None:
        """Deviation of the noise; None for fewer than two numbers."""
        if self.numbers < 2:
            return None
        left = self.squares - (self.product**2 / self.weight if self.weight > 0 else 0.0)
        return math.sqrt(max(0.0, left) / (self.numbers - 1))

    def least_ratio(self, significance: float) -> float:
        """A lower bound on length over deviation, wrong with a chance of at most `significance`.

        One-sided: a signal against its own direction is no evidence, and gives 0.
        """
        if self.weight <= 0 or self.numbers < 2 or not self.product > 0:
            return 0.0
        deviation = self.deviation
        if not deviation:
            return _MOST_RATIO
        root = math.sqrt(self.weight)
        statistic = self.product / root / deviation

        def excess(center: float) -> float:
            return float(scipy.stats.nct.sf(statistic, self.numbers - 1, center)) - significance

        # The smallest centre of Student's t at which so large a statistic is not yet too rare.
        if excess(0.0) >= 0:
            return 0.0
        center = float(scipy.optimize.brentq(excess, 0.0, statistic * 1.5 + 10, xtol=1e-9))
        return center / root


_LARGEST = 60.0
_STEPS = 60
SMALL_DELTA_TERM = 0.02
"""The largest 2 m delta at which the term beside the binomial's hardly matters."""


def most_canaries(delta: float) -> int | None:
    """How many canaries leave the term of delta small; None where there is none."""
    return None if delta == 0 else max(1, math.floor(SMALL_DELTA_TERM / (2 * delta) + 1e-6))


def one_run_p_value(
    *, canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """An upper bound on the chance of so many correct guesses."""
    if not 0 <= correct <= guesses <= canaries:
        raise ValueError("correct guesses are among the guesses, and these among the canaries")
    chance = float(scipy.special.expit(epsilon))
    tail = float(scipy.stats.binom.sf(correct - 1, guesses, chance))
    if delta == 0 or correct == 0:
        return min(1.0, tail)
    below = scipy.stats.binom.pmf(np.arange(correct - 1, -1, -1), guesses, chance)
    worst = float((np.cumsum(below) / np.arange(1, correct + 1)).max())
    return min(1.0, tail + 2 * canaries * delta * worst)


def one_run_epsilon(
    *, canaries: int, guesses: int, correct: int, delta: float, significance: float
) -> float:
    """The largest epsilon that so many correct guesses refute; 0 if they refute none."""

    def refuted(epsilon: float) -> bool:
        p = one_run_p_value(
            canaries=canaries, guesses=guesses, correct=correct, epsilon=epsilon, delta=delta
        )
        return p <= significance

    if not guesses or not refuted(0.0):
        return 0.0
    low, high = 0.0, _LARGEST
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def refutes(
    curve: Curve, *, canaries: int, guesses: int, correct: int, significance: float
) -> bool:
    """Whether so many correct guesses have a chance below `significance` under the curve."""
    if not 0 <= correct <= guesses <= canaries:
        raise ValueError("correct guesses are among the guesses, and these among the canaries")
    if not correct:
        return False
    most = guesses / canaries
    right = significance * correct / canaries
    wrong = significance * (guesses - correct) / canaries
    for count in range(correct - 1, -1, -1):
        before = wrong
        wrong = max(wrong, curve(right))
        right += count / (guesses - count) * (wrong - before)
        if right + wrong > most:
            return True
    return False


def fewest_correct(refuted: Callable[..., bool], *, guesses: int) -> int | None:
    """The fewest `correct` guesses that are `refuted`; None where not even all are."""
    if not guesses or not refuted(correct=guesses):
        return None
    return bisect_left(range(1, guesses), True, key=lambda some: refuted(correct=some)) + 1


NUMBERS_A_RELEASE = 4
"""Numbers that measure the covariance, for each release in the sum, at least."""
MOST_RELEASES = 64
_TINY = 1e-12
_TURNS = 30
_SUMMED_STEPS = 1000
_FAR = 40.0
_MOST_SUMMED_RATIO = 1e3
_DRAWS = 4000


@dataclass(frozen=True, eq=False)
class QuietSum:
    """The sum of releases that reveals most of a unit, by noise that was measured."""

    weights: Floats
    """[releases]. A unit that chooses its signs adds its own length to the sum."""
    precision: Floats
    """[releases, releases]: the inverse of the covariance."""
    lengths: Floats
    """[moments]: what a unit adds to the sum at each that it enters; they add up to 1."""

    @classmethod
    def of_noise(cls, noise: Floats, moments: Ints) -> Self:
        """Read `noise` [releases, numbers]; a unit sends the same to releases of one number in
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
        lengths = np.abs(entering.T @ weights)
        return cls(weights / lengths.sum(), precision, lengths / lengths.sum())

    def least_ratio(self, released: Floats, signal: Floats, *, significance: float) -> float:
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
        least = length - float(scipy.stats.t.isf(significance / 2, reached - 1)) * error
        seen, sent = self.weights @ released, self.weights @ signal
        fit = SignalFit(
            product=float(seen @ sent),
            weight=float(sent @ sent),
            squares=float(seen @ seen),
            numbers=len(seen),
        )
        freedom = len(seen) - 1
        largest = (fit.deviation or 0.0) * math.sqrt(
            freedom / float(scipy.stats.chi2.ppf(significance / 2, freedom))
        )
        return min(max(0.0, least) / max(largest, 1 / _MOST_SUMMED_RATIO), _MOST_SUMMED_RATIO)


def summed_epsilon(law: ReleaseLaw, lengths: Floats, delta: float) -> float:
    """The epsilon at `delta` of a sum, at least.

    `lengths` [moments]: what a unit adds to the sum at each moment that it enters, over the
    deviation of the noise in it.
    """
    if not law.is_sampled:
        return gaussian_epsilon(law.reach * float(lengths.sum()), delta)
    chances, sums = _entered(lengths, law)
    thresholds = np.union1d(
        np.linspace(-_FAR / 8, _FAR, _SUMMED_STEPS),
        np.linspace(0.0, float(sums[-1]), _SUMMED_STEPS),
    )[:, None]
    absent = -sums if law.adjacency == "replace-one" else 0 * sums
    there = np.exp(
        scipy.special.logsumexp(chances + scipy.special.log_ndtr(sums - thresholds), axis=1)
    )
    otherwise = scipy.special.logsumexp(
        chances + scipy.special.log_ndtr(absent - thresholds), axis=1
    )
    telling = there > delta
    if not telling.any():
        return 0.0
    return max(0.0, float((np.log(there[telling] - delta) - otherwise[telling]).max()))


def _entered(lengths: Floats, law: ReleaseLaw) -> tuple[Floats, Floats]:
    """Logarithms of chances, and the sums that entering by the law makes of the lengths, each
    rounded down, which shows less than there is."""
    step = float(lengths.sum()) / _SUMMED_STEPS or 1.0
    chances = np.zeros(_SUMMED_STEPS + 1)
    chances[0] = 1.0
    # At most one of each group is entered: one by one by coins, or one of a block.
    together = law.block or 1
    for start in range(0, len(lengths), together):
        group = lengths[start : start + together]
        entered = [np.roll(chances, math.floor(length / step)) for length in group]
        chances = max(0.0, 1 - len(group) * law.rate) * chances + law.rate * np.sum(entered, axis=0)
    with np.errstate(divide="ignore"):
        return np.log(chances), step * np.arange(_SUMMED_STEPS + 1, dtype=np.float64)


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
    least = length - float(scipy.stats.t.isf(significance / 2, reached - 1)) * shown
    largest = np.sqrt(
        generator.chisquare(freedom, _DRAWS)
        / float(scipy.stats.chi2.ppf(significance / 2, freedom))
    )
    # Measuring a covariance of so many releases costs this share of what the best sum would show.
    seen = ratio * math.sqrt(count * (1 - count / measured))
    needed = claimed / law.reach * math.sqrt(law.compositions)
    return float((seen * least / largest > needed).mean())


_GUESS_DRAWS = 1000
_NUMBERS = 4_000_000
_LEAST_DRAWS = 100
_SEARCH_STEPS = 24
_SEARCH_STEPS_SAMPLED = 5
_LARGEST_RATIO = 1e3


def most_powerful_guesses(
    law: ReleaseLaw, canaries: int, refuted: Callable[..., bool]
) -> GuessTest:
    """The guesses with the largest power, by scores drawn under half of the noise. `refuted` takes
    the numbers of `GuessTest.counts`."""
    draws = max(_LEAST_DRAWS, min(_GUESS_DRAWS, _NUMBERS // canaries))
    generator = np.random.default_rng(canaries)
    scores, coins = simulated(
        law, ratio=2 * law.ratio, canaries=canaries, draws=draws, generator=generator
    )
    ordered = by_score(scores, coins)
    best, margin = GuessTest(canaries, canaries // 2, 0), -np.inf
    for test in possible_tests(canaries):
        of_so_many = partial(refuted, canaries=canaries, guesses=test.guesses)
        needed = fewest_correct(of_so_many, guesses=test.guesses)
        correct = test.correct(ordered)
        power = 0.0 if needed is None else float((correct >= needed).mean())
        spare = float(correct.mean()) - (test.guesses + 1 if needed is None else needed)
        if (power, spare / test.guesses) > (best.power, margin):
            best, margin = replace(test, power=power), spare / test.guesses
    return best


def f_dp_epsilon(
    law: ReleaseLaw, delta: float, counts: Mapping[str, int], *, significance: float
) -> float:
    """The epsilon of the least noise whose curve is refuted by so many correct guesses."""

    def refuted(ratio: float) -> bool:
        return refutes(law.with_ratio(ratio).curve(), **counts, significance=significance)

    low = high = law.ratio / (8 if law.is_sampled else 64)
    if not refuted(low):
        return 0.0
    while high < _LARGEST_RATIO and refuted(high):
        low, high = high, 2 * high
    # Every step of the search is a bound; of a sampled law one takes a good part of a second.
    for _ in range(_SEARCH_STEPS_SAMPLED if law.is_sampled else _SEARCH_STEPS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return law.with_ratio(low).epsilon(delta)
