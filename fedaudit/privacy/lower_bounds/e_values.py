"""Evidence against a claim as e-values, and the test of metric privacy by two inputs.

An e-value is a nonnegative figure whose expectation is at most 1 if the claim holds. So an honest
run gives an e-value of 1/a or more with a chance of at most a. An average of e-values is an
e-value, however they depend on each other. A product is one if each factor has an expectation of at
most 1 given everything before it (Vovk and Wang, "E-values: calibration, combination and
applications", 2021). Each factor is floored above 0 by what it does not stake.

All evidence against a run's claim is one figure, by which alarms are raised.

Attacks that drew their coins and their noise anew (`fresh`) have e-values that multiply: each has a
mean of at most 1 given everything before it. Attacks that see what the run itself drew (`run`: its
trained hypotheses, or with simulated noise everything) have that in common, so their e-values are
averaged. An attack that finds nothing must not bury what another finds. So half of the stake waits
for the second fresh attack, a third for the third, and so on. With w(k) = 1 / (k (k + 1)), which
add up to 1,

    evidence = (sum over k of w(k) run(k))
               * (sum over k <= n of w(k) fresh(k) ... fresh(n) + 1 / (n + 1))

and a factor without an attack is 1. In honest runs the evidence ever reaches 1 / ALARM_LEVEL with a
chance of at most ALARM_LEVEL (Ville 1939): the second factor is a nonnegative martingale, or less,
and the first one only grows once it is there, to what is a mean of e-values.

The test of metric privacy asks whether the releases of two inputs are farther apart than the
guarantee of the Laplace mechanism allows. With epsilon = n / (nu r) the laws of two inputs at
distance d <= r differ by a factor of at most exp(epsilon d) (Galli et al., Lemma 4.1). A fair coin
chooses the input. A release is guessed to be of the nearer input if it is nearer by more than a
share of d that was fixed before. Whatever the threshold, a guess is right with a chance of at most
1 / (1 + exp(-epsilon d)). The number of right guesses among those made is tested exactly (Clopper
and Pearson).

A guess is that good only if the noise points along the difference of the inputs. In many dimensions
it hardly ever does: then no number of releases distinguishes half of the noise from all of it, and
the power states that.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_never

import numpy as np
import scipy

from fedaudit.arrays import Floats
from fedaudit.privacy.lower_bounds.epsilon_bounds import SignalFit, one_run_p_value

EvidenceBasis = Literal["fresh", "run"]
"""The randomness that an e-value's expectation is over: coins and noise drawn for one attack alone,
or what the run itself drew, which its other attacks see too."""

ALARM_LEVEL = 0.01
"""The largest chance that a run in which every claim holds ever gets an alarm, however often it is
attacked."""
_MOST = 1e12
"""Evidence is cut here, so that it stays a number."""


@dataclass(frozen=True)
class EValue:
    """What one attack found."""

    value: float
    basis: EvidenceBasis


def e_values_of(sections: Iterable[Mapping[str, Any]]) -> list[EValue]:
    """The e-values of attacks, in their order; attacks of earlier versions have none.

    Raises ValueError for a figure or basis that is not one.
    """
    found = []
    for section in sections:
        value: Any = section.get("e_value")
        basis: Any = section.get("e_basis")
        if value is None and basis is None:
            continue
        if type(value) not in (int, float) or not value >= 0 or basis not in ("fresh", "run"):
            raise ValueError("an attack has an e-value that is none")
        found.append(EValue(float(value), basis))
    return found


def run_evidence(found: Sequence[EValue]) -> float:
    """Evidence against the run's claim, after these attacks on it, in their order; 1 is none."""
    of_run, chained = 0.0, 0.0
    shared = fresh = 0
    for one in found:
        match one.basis:
            case "run":
                shared += 1
                of_run += one.value / (shared * (shared + 1))
            case "fresh":
                fresh += 1
                chained = min(_MOST, one.value * (chained + 1 / (fresh * (fresh + 1))))
            case _:
                assert_never(one.basis)
    return min(_MOST, (of_run if shared else 1.0) * (chained + 1 / (fresh + 1)))


def is_alarm(evidence: float, e_value: float) -> bool:
    """Whether an attack raises an alarm: the run's evidence after it is enough, and the attack's
    e-value added to it."""
    return e_value > 1 and evidence * ALARM_LEVEL >= 1 - 1e-9


def evidence_words(evidence: float) -> str:
    """The evidence in words for an alarm."""
    return (
        f"all attacks on this run together make {evidence:.4g}, and {1 / ALARM_LEVEL:g} or more "
        f"ever comes in at most {ALARM_LEVEL:.0%} of all runs whose claim holds, however often "
        "they are attacked"
    )


LARGEST = 1e9
"""E-values are cut here, which leaves them e-values and numbers."""
_ONE_LOOK = ALARM_LEVEL / 4
ENOUGH_ALONE = 2 / ALARM_LEVEL
"""The e-value with which the first attack on a run raises an alarm."""
_RATIOS = (1.0, 1.3, 1.8, 3.0)
_RATIO_SHARES = (0.2, 0.15, 0.5, 0.15)
"""Alternatives to the claimed ratio, and what is staked on each: most on noise half of what is
claimed, somewhat less than that because a ledger's figure may be larger than the exact one."""
_GAINS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""What guesses may be worth beyond the claimed epsilon, each with an equal stake."""
_STEPS = np.linspace(-8.0, 8.0, 65)
"""Steps of a quadrature, in standard deviations around the peak of the integrand."""
_FEWEST_NUMBERS = 8
_FARTHEST = 1e6
"""The largest statistic that a power is computed for."""


def one_look_level(share: float = 1.0) -> float:
    """The p-value at which a test with this share of an attack raises the alarm by itself, as the
    first attack on a run."""
    return share * _ONE_LOOK


def staked(p_value: float, other: float, *, share: float = 1.0) -> float:
    """An e-value that stakes half on one look at a p-value, and half on another e-value of the same
    data."""
    level = one_look_level(share)
    return min(LARGEST, ((1 / level if p_value <= level else 0.0) + other) / 2)


def calibrated(p_value: float) -> float:
    """The e-value of a p-value, for tests that have no better one: the mixture of k p^(k - 1) over
    all k in (0, 1)."""
    p = min(1.0, max(p_value, 1 / LARGEST**2))
    if p > 1 - 1e-6:
        return 0.5
    log = math.log(p)
    return min(LARGEST, (1 - p + p * log) / (p * log * log))


def guesses_e_value(*, right: int, guesses: int, epsilon: float) -> float:
    """E-value of guesses of which each is right with a chance of at most e^epsilon / (1 +
    e^epsilon) given those before it. It is a mixture of likelihood ratios, which grow with every
    right guess."""
    return float(_guess_ratios(guesses, epsilon)[right])


def one_run_e_value(
    *, canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """E-value of one run's guesses under (epsilon, delta), by the tails of `one_run_p_value`.

    If g does not fall, E g(V) = g(0) + sum over v of (g(v) - g(v - 1)) P[V >= v]. The proven bounds
    in place of these chances make the sum no smaller, and g is divided by it.
    """
    ratios = _guess_ratios(guesses, epsilon)
    tails = [
        one_run_p_value(
            canaries=canaries, guesses=guesses, correct=count, epsilon=epsilon, delta=delta
        )
        for count in range(1, guesses + 1)
    ]
    return float(ratios[correct] / (ratios[0] + np.diff(ratios) @ np.array(tails)))


def _guess_ratios(guesses: int, epsilon: float) -> Floats:
    """Ratio for each number of right guesses, [guesses + 1]; its mean under the claim is 1."""
    counts, claimed = np.arange(guesses + 1), scipy.special.expit(epsilon)
    honest = scipy.stats.binom.logpmf(counts, guesses, claimed)
    logs = []
    for gain in _GAINS:
        likelier = scipy.stats.binom.logpmf(counts, guesses, scipy.special.expit(epsilon + gain))
        # A chance of wrong guesses that rounds to 0 falls by e^-gain for each of them.
        log = -gain * (guesses - counts)
        there = np.isfinite(honest) & np.isfinite(likelier)
        logs.append(np.subtract(likelier, honest, out=log, where=there))
    found: Floats = np.exp(np.minimum(logs, math.log(LARGEST))).mean(axis=0)
    return found


def known_noise_p_value(fit: SignalFit, *, claimed: float) -> float:
    """The largest chance of so large a signal beside its noise if their ratio is `claimed`."""
    if fit.weight <= 0 or fit.numbers < 2 or not fit.product > 0:
        return 1.0
    deviation, root = fit.deviation, math.sqrt(fit.weight)
    if not deviation:
        return 0.0
    return float(
        scipy.stats.nct.sf(fit.product / root / deviation, fit.numbers - 1, claimed * root)
    )


def known_noise_e_value(fit: SignalFit, *, claimed: float) -> float:
    """A mixture of likelihood ratios: larger ratios of signal to noise against the `claimed` one.

    The likelihoods are those of what is invariant to the unit of measurement. With the right Haar
    measure on the deviation, the mixture is a nonnegative martingale over the rounds if the ratio
    of signal to noise is the claimed one (Perez-Ortiz, Lardy, de Heide and Grunwald, "E-statistics,
    group invariance and anytime-valid testing", 2024). So it may be evaluated after each round.
    With the same noise a smaller signal makes a smaller cosine with what was sent at every time,
    and so a smaller value. Under any smaller ratio it therefore passes a level no more often than
    under the claimed one, and its value where it first does, cut at the level, is on average no
    larger.
    """
    if fit.weight <= 0 or fit.squares <= 0:
        return 1.0
    along = np.array(fit.product / math.sqrt(fit.squares))
    found = known_noise_e_values(along, np.array(fit.weight), numbers=fit.numbers, claimed=claimed)
    return float(found)


def known_noise_e_values(along: Floats, weight: Floats, *, numbers: int, claimed: float) -> Floats:
    """E-values of fits of any shape with so many numbers: `along` is the product over the root of
    the squares (`SignalFit`). Fewer than eight numbers give no evidence."""
    if numbers < _FEWEST_NUMBERS:
        return np.ones_like(along)
    claim = _log_likelihood(claimed, along, weight, numbers)
    found = np.zeros_like(along)
    for ratio, share in zip(_RATIOS, _RATIO_SHARES, strict=True):
        log = _log_likelihood(claimed * ratio, along, weight, numbers) - claim
        found = found + share * np.exp(np.minimum(log, math.log(LARGEST)))
    return np.minimum(LARGEST, found)


def known_noise_alarm_power(
    *,
    claimed: float,
    true: float,
    weight: float,
    numbers: int,
    share: float | None,
    stake: float = 1.0,
) -> float:
    """The chance that the ratio `true` raises an alarm by this bound alone, as the first attack.

    `weight` and `numbers` as in `SignalFit`, expected before the run. `share`: this bound's share
    of the attack. It is None if the likelihood ratios are the whole attack, or have this `stake` in
    it; their value at the end then counts.
    """
    if weight <= 0 or numbers < 2:
        return 0.0
    root, freedom = math.sqrt(weight), numbers - 1
    needed = ENOUGH_ALONE / stake if share is None else 2 * ENOUGH_ALONE / share

    def alarms(statistic: float) -> bool:
        cosine = statistic / math.sqrt(freedom + statistic**2)
        fit = SignalFit(cosine * root, weight, 1.0, numbers)
        return known_noise_e_value(fit, claimed=claimed) >= needed

    low, level = 0.0, one_look_level(share or 1.0)
    high = float(scipy.stats.nct.isf(level, freedom, claimed * root))
    while share is None and not alarms(high) and high < _FARTHEST:
        low, high = high, 1.5 * high
    if alarms(high):
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if alarms(middle) else (middle, high)
    return float(scipy.stats.nct.sf(high, freedom, true * root))


def _log_likelihood(ratio: float, along: Floats, weight: Floats, numbers: int) -> Floats:
    """The logarithm of the integral of v^(numbers - 1) exp(-v^2/2 + ratio along v) over v > 0, less
    ratio^2 weight / 2; up to a term that is the same for every ratio."""
    power, slope = numbers - 1, ratio * along
    root = np.sqrt(slope * slope + 4 * power)
    # The stable one of two forms of the mode: a slope far below 0 would cancel the root.
    mode = np.where(slope >= 0, slope + root, 4 * power / (root - slope)) / 2
    width = 1 / np.sqrt(1 + power / mode**2)
    steps = np.maximum(_STEPS * width[..., None], mode[..., None] * (1e-9 - 1))
    place = steps * (slope - mode)[..., None] - steps * steps / 2
    logs = power * np.log1p(steps / mode[..., None]) + place
    area = np.log(np.trapezoid(np.exp(logs), steps, axis=-1))
    peak = power * np.log(mode) - mode * mode / 2 + slope * mode
    found: Floats = peak + area - ratio * ratio * weight / 2
    return found


LARGEST_LEAKAGE = 5.0
"""Above it, right guesses would have to be more certain than some thousands can show."""

_SHARES = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 0.01)
_THRESHOLDS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
_DRAWS = 100_000


@dataclass(frozen=True, kw_only=True)
class MetricTest:
    """What is tested, as decided before the run."""

    share: float
    """The inputs' distance over the radius."""
    threshold: float
    """How much nearer than to the other input a release must be, over the distance."""
    leakage: float
    """The claim: n / nu times the share."""
    power: float


def plan_metric_test(
    *, n: int, noise_multiplier: float, releases: int, most_share: float, significance: float
) -> MetricTest | None:
    """The distance and the threshold with the largest power against half of the noise.

    `most_share`: the largest distance over the radius that a clip allows. None if the claim is too
    large to be tested, whatever the distance.
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
    chance = float(scipy.stats.beta.ppf(significance, right, wrong + 1))
    return max(0.0, float(scipy.special.logit(chance)))


def metric_e_value(*, right: int, wrong: int, leakage: float) -> float:
    """Evidence against the leakage claimed, from right and wrong guesses."""
    guesses = right + wrong
    p_value = float(scipy.stats.binom.sf(right - 1, guesses, scipy.special.expit(leakage)))
    return staked(p_value, guesses_e_value(right=right, guesses=guesses, epsilon=leakage))


def _closeness(
    n: int, noise_multiplier: float, share: float, generator: np.random.Generator
) -> Floats:
    """How much nearer releases are to their own input than to the other, over the distance, for a
    radius of 1: [draws]. Only the noise along the difference and across it matters."""
    norm = generator.gamma(n, noise_multiplier / n, _DRAWS)
    along = generator.standard_normal(_DRAWS)
    across = generator.chisquare(n - 1, _DRAWS) if n > 1 else np.zeros(_DRAWS)
    cosine = along / np.sqrt(along * along + across)
    other = np.sqrt(np.maximum(0.0, norm**2 + 2 * norm * share * cosine + share**2))
    return (other - norm) / share


def _power(
    right: float, wrong: float, *, releases: int, leakage: float, significance: float
) -> float:
    """The chance that the bound passes the claim, for these chances of a right and a wrong guess.

    As many guesses are made as are expected; the number of wrong ones among them is binomial.
    """
    made = round(releases * (right + wrong))
    if not made or right <= wrong:
        return 0.0

    def within(found_wrong: int) -> bool:
        right_ones = made - found_wrong
        found = least_leakage(right=right_ones, wrong=found_wrong, significance=significance)
        return found <= leakage

    most = bisect_left(range(made + 1), True, key=within)
    return float(scipy.stats.binom.cdf(most - 1, made, wrong / (right + wrong)))
