"""Exact integer noise against the probabilities of its distributions.

Seeds are fixed; for other seeds a chi-squared test raises a false alarm once in a thousand times.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from fedaudit.privacy.noise.exact_integers import IntegerDraws, drawn_integers
from fedaudit.randomness import CounterSource, EntropySource, Purpose

_DRAWS = 6000
_ALARM = 1e-3


def drawn(seed: int, scale: Fraction, *, gaussian: bool) -> np.ndarray:
    draws = IntegerDraws(CounterSource(seed), purpose=Purpose.COUNT_NOISE, round_=0)
    return drawn_integers(draws, shape=(_DRAWS,), scale=scale, gaussian=gaussian)


def fits(found: np.ndarray, weight: "np.ufunc | object") -> float:
    """The p-value of a chi-squared test, tails joined where fewer than ten are expected."""
    reach = np.arange(-2000, 2001)
    chances = weight(reach)  # type: ignore[operator]
    chances = chances / chances.sum()
    inner = reach[chances * _DRAWS >= 10]
    low, high = inner.min(), inner.max()
    clipped = np.clip(found, low, high)
    expected = np.array([chances[reach == one].sum() for one in inner])
    expected[0] += chances[reach < low].sum()
    expected[-1] += chances[reach > high].sum()
    counted = np.array([(clipped == one).sum() for one in inner])
    return float(chisquare(counted, expected * _DRAWS).pvalue)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(3) / Fraction(0.1)])
def test_discrete_laplace_noise_has_its_distribution(scale: Fraction) -> None:
    found = drawn(5, scale, gaussian=False)
    assert fits(found, lambda x: np.exp(-np.abs(x) / float(scale))) > _ALARM


@pytest.mark.parametrize("deviation", [0.4, 3.7, 12.0])
def test_discrete_gaussian_noise_has_its_distribution(deviation: float) -> None:
    found = drawn(6, Fraction(deviation) ** 2, gaussian=True)
    assert fits(found, lambda x: np.exp(-(x**2) / (2 * deviation**2))) > _ALARM


def test_a_sampler_of_another_scale_is_caught() -> None:
    found = drawn(7, Fraction(2), gaussian=False)
    assert fits(found, lambda x: np.exp(-np.abs(x) / 2.2)) < _ALARM


def test_noise_repeats_from_a_seed_and_never_from_entropy() -> None:
    assert (drawn(8, Fraction(9), gaussian=False) == drawn(8, Fraction(9), gaussian=False)).all()
    secret = [
        drawn_integers(
            IntegerDraws(EntropySource(), purpose=Purpose.COUNT_NOISE, round_=0),
            shape=(64,),
            scale=Fraction(50),
            gaussian=False,
        )
        for _ in range(2)
    ]
    assert (secret[0] != secret[1]).any()


def test_whole_numbers_below_a_bound_are_equally_likely() -> None:
    draws = IntegerDraws(CounterSource(9), purpose=Purpose.COUNT_NOISE, round_=0)
    counted = np.bincount([draws.below(5) for _ in range(5000)], minlength=5)
    assert chisquare(counted).pvalue > _ALARM
    assert draws.below(1) == 0
    assert 0 <= draws.below(1 << 64) < 1 << 64 <= 3 * (1 << 64)
