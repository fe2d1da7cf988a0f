"""The bound for Gaussian noise: its significance and its power, as often as they are stated."""

import numpy as np
import pytest

from benchmarks.canary_scenarios import gaussian_mu
from fedaudit.privacy.lower_bounds.epsilon_bounds import SignalFit
from fedaudit.privacy.lower_bounds.release_law import gaussian_epsilon

SIGNIFICANCE, REPEATS = 0.05, 500


def _fits(ratio: float, *, weight: int, numbers: int, repeats: int = REPEATS) -> list[SignalFit]:
    generator = np.random.default_rng(weight)
    direction = np.zeros(numbers)
    direction[:weight] = 1.0
    found = []
    for _ in range(repeats):
        released = ratio * direction + generator.standard_normal(numbers)
        fit = SignalFit()
        for part in (slice(None, numbers // 2), slice(numbers // 2, None)):
            one, x = released[part], direction[part]
            fit.add(product=one @ x, weight=x @ x, squares=one @ one, numbers=len(one))
        found.append(fit)
    return found


@pytest.mark.parametrize(("weight", "numbers"), [(20, 40), (3, 20), (1, 2)])
@pytest.mark.parametrize("ratio", [0.3, 1.7])
def test_it_is_wrong_as_rarely_as_it_says(weight: int, numbers: int, ratio: float) -> None:
    wrong = sum(
        fit.least_ratio(SIGNIFICANCE) > ratio
        for fit in _fits(ratio, weight=weight, numbers=numbers)
    )
    # Exact: within four standard deviations of a binomial number.
    assert wrong == pytest.approx(REPEATS * SIGNIFICANCE, abs=4 * (REPEATS * 0.05 * 0.95) ** 0.5)


def test_a_signal_the_wrong_way_is_no_evidence() -> None:
    for fit in _fits(-1.7, weight=20, numbers=40, repeats=50):
        assert fit.product < 0
        assert fit.least_ratio(SIGNIFICANCE) == 0.0


def test_without_canaries_or_noise_it_neither_fails_nor_invents() -> None:
    nothing = SignalFit()
    nothing.add(product=0.0, weight=0.0, squares=3.0, numbers=5)
    assert nothing.least_ratio(0.01) == 0.0
    assert SignalFit().deviation is None
    exact = SignalFit()
    exact.add(product=2.0, weight=2.0, squares=2.0, numbers=4)
    assert exact.least_ratio(0.01) >= 1e6


@pytest.mark.parametrize(("epsilon", "share"), [(1.0, 0.78), (4.0, 0.92), (8.0, 0.94)])
def test_5000_canaries_come_close_to_the_truth(epsilon: float, share: float) -> None:
    """The median over the laws of the fit, 2,500 being present among 5,000 numbers of noise, at the
    significance that an attack gives this bound."""
    mu, generator = gaussian_mu(epsilon, 1e-5), np.random.default_rng(5)
    found = []
    for _ in range(201):
        noise = generator.standard_normal()
        product = 2500 * mu + 50 * noise
        squares = product**2 / 2500 + generator.chisquare(4999)
        fit = SignalFit(product=product, weight=2500.0, squares=squares, numbers=5000)
        found.append(gaussian_epsilon(fit.least_ratio(0.008), 1e-5))
    assert share * epsilon <= np.median(found) <= epsilon
