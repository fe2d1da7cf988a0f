"""Evidence against a claim as e-values: nonnegative figures whose expectation is at most 1 where
the claim holds, so that one of 1/a or more comes by chance in at most a of all honest runs.

Averages of e-values are e-values, whatever they have in common; products are, where each factor has
that expectation given everything before it (Vovk and Wang, "E-values: calibration, combination and
applications", 2021). Each is floored above 0 by what it does not stake.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom, nct

from fedaudit.privacy.lower_bounds.known_noise import SignalFit
from fedaudit.privacy.lower_bounds.one_run import one_run_p_value
from fedaudit.privacy.lower_bounds.run_evidence import ALARM_LEVEL

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
"""Of a quadrature, in standard deviations around the peak of what is integrated."""
_FEWEST_NUMBERS = 8
_FARTHEST = 1e6
"""The largest statistic that a power is computed for."""


def one_look_level(share: float = 1.0) -> float:
    """The p-value at which a test with this share of an attack raises the alarm by itself, as the
    first attack on a run."""
    return share * _ONE_LOOK


def staked(p_value: float, other: float, *, share: float = 1.0) -> float:
    """Half of the stake on one look at a p-value, half on another e-value of the same data."""
    level = one_look_level(share)
    return min(LARGEST, ((1 / level if p_value <= level else 0.0) + other) / 2)


def calibrated(p_value: float) -> float:
    """The mixture of k p^(k - 1) over all k in (0, 1), for tests that have nothing better."""
    p = min(1.0, max(p_value, 1 / LARGEST**2))
    if p > 1 - 1e-6:
        return 0.5
    log = math.log(p)
    return min(LARGEST, (1 - p + p * log) / (p * log * log))


def guesses_e_value(*, right: int, guesses: int, epsilon: float) -> float:
    """Of right guesses, each with a chance of at most e^epsilon / (1 + e^epsilon) given those
    before it: a mixture of likelihood ratios, which grow with every right guess."""
    return float(_guess_ratios(guesses, epsilon)[right])


def one_run_e_value(
    *, canaries: int, guesses: int, correct: int, epsilon: float, delta: float
) -> float:
    """Of one run's guesses under (epsilon, delta), by the tails that `one_run_p_value` proves.

    For g that does not fall, E g(V) = g(0) + sum over v of (g(v) - g(v - 1)) P[V >= v]: with the
    proven bounds in place of the chances the sum, by which g is divided, is no smaller.
    """
    ratios = _guess_ratios(guesses, epsilon)
    tails = [
        one_run_p_value(
            canaries=canaries, guesses=guesses, correct=count, epsilon=epsilon, delta=delta
        )
        for count in range(1, guesses + 1)
    ]
    return float(ratios[correct] / (ratios[0] + np.diff(ratios) @ np.array(tails)))


def _guess_ratios(guesses: int, epsilon: float) -> NDArray[np.float64]:
    """By how many of the guesses are right, [guesses + 1]; their mean under the claim is 1."""
    counts, claimed = np.arange(guesses + 1), expit(epsilon)
    logs = [
        binom.logpmf(counts, guesses, expit(epsilon + gain))
        - binom.logpmf(counts, guesses, claimed)
        for gain in _GAINS
    ]
    found: NDArray[np.float64] = np.exp(np.minimum(logs, math.log(LARGEST))).mean(axis=0)
    return found


def known_noise_p_value(fit: SignalFit, *, claimed: float) -> float:
    """The chance of so large a signal beside its noise, were their ratio `claimed`, at most."""
    if fit.weight <= 0 or fit.numbers < 2 or not fit.product > 0:
        return 1.0
    deviation, root = fit.deviation, math.sqrt(fit.weight)
    if not deviation:
        return 0.0
    return float(nct.sf(fit.product / root / deviation, fit.numbers - 1, claimed * root))


def known_noise_e_value(fit: SignalFit, *, claimed: float) -> float:
    """Likelihood ratios of larger ratios of signal to noise against the `claimed` one, mixed.

    Of what is invariant to the unit of measurement: with the right Haar measure on the deviation
    the ratio is, round after round, a nonnegative martingale where the ratio is the claimed one
    (Perez-Ortiz, Lardy, de Heide and Grunwald, "E-statistics, group invariance and anytime-valid
    testing", 2024), and may be looked at after each. On the same noise a smaller signal makes a
    smaller cosine with what was sent at every time, and so a smaller value: under any smaller ratio
    it passes a level, and its value where it first does, cut at the level, is on average, no
    more often and no more than under the claimed one.
    """
    if fit.weight <= 0 or fit.squares <= 0:
        return 1.0
    along = np.array(fit.product / math.sqrt(fit.squares))
    found = known_noise_e_values(along, np.array(fit.weight), numbers=fit.numbers, claimed=claimed)
    return float(found)


def known_noise_e_values(
    along: NDArray[np.float64], weight: NDArray[np.float64], *, numbers: int, claimed: float
) -> NDArray[np.float64]:
    """Of fits of any shape with so many numbers: `along` is the product over the root of the
    squares (`SignalFit`). Of fewer than eight numbers nothing is made."""
    if numbers < _FEWEST_NUMBERS:
        return np.ones_like(along)
    claim = _log_likelihood(claimed, along, weight, numbers)
    found = np.zeros_like(along)
    for ratio, share in zip(_RATIOS, _RATIO_SHARES, strict=True):
        log = _log_likelihood(claimed * ratio, along, weight, numbers) - claim
        found = found + share * np.exp(np.minimum(log, math.log(LARGEST)))
    return np.minimum(LARGEST, found)


def known_noise_alarm_power(
    *, claimed: float, true: float, weight: float, numbers: int, share: float | None
) -> float:
    """The chance that the ratio `true` raises an alarm by this bound alone, as the first attack.

    `weight` and `numbers` as in `SignalFit`, expected before the run. `share`: of the attack; None
    where the likelihood ratios are all of it, by what they come to in the end.
    """
    if weight <= 0 or numbers < 2:
        return 0.0
    root, freedom = math.sqrt(weight), numbers - 1
    needed = ENOUGH_ALONE if share is None else 2 * ENOUGH_ALONE / share

    def alarms(statistic: float) -> bool:
        cosine = statistic / math.sqrt(freedom + statistic**2)
        fit = SignalFit(cosine * root, weight, 1.0, numbers)
        return known_noise_e_value(fit, claimed=claimed) >= needed

    low, high = 0.0, float(nct.isf(one_look_level(share or 1.0), freedom, claimed * root))
    while share is None and not alarms(high) and high < _FARTHEST:
        low, high = high, 1.5 * high
    if alarms(high):
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if alarms(middle) else (middle, high)
    return float(nct.sf(high, freedom, true * root))


def _log_likelihood(
    ratio: float, along: NDArray[np.float64], weight: NDArray[np.float64], numbers: int
) -> NDArray[np.float64]:
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
    found: NDArray[np.float64] = peak + area - ratio * ratio * weight / 2
    return found
