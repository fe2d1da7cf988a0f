"""What sampled releases tell of one unit: bounds from below and from above.

Exact epsilon of Gaussian noise, against dp-accounting and figures from elsewhere.
"""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.canary_scenarios import gaussian_mu
from fedaudit.privacy.accounting.privacy_events import Adjacency
from fedaudit.privacy.lower_bounds.epsilon_bounds import SignalFit
from fedaudit.privacy.lower_bounds.release_law import ReleaseLaw, gaussian_delta, gaussian_epsilon

SAMPLED = ReleaseLaw(ratio=0.5, rate=0.2, compositions=20, adjacency="add-or-remove-one")


def test_a_sampled_epsilon_is_from_below_and_tight() -> None:
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    gaussian = dp_accounting.GaussianDpEvent(1 / SAMPLED.ratio)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(0.2, gaussian), 20)
    above = accountant.get_epsilon(1e-5)
    assert 0.98 * above < SAMPLED.epsilon(1e-5) <= above


@pytest.mark.parametrize("adjacency", ["add-or-remove-one", "replace-one"])
def test_a_rate_near_one_is_in_full_view(adjacency: Adjacency) -> None:
    full = ReleaseLaw(ratio=0.5, rate=1.0, compositions=3, adjacency=adjacency)
    near = ReleaseLaw(ratio=0.5, rate=1 - 1e-9, compositions=3, adjacency=adjacency)
    assert near.epsilon(1e-5) == pytest.approx(full.epsilon(1e-5), rel=5e-3)
    for power in (1e-3, 0.1, 0.5, 0.9):
        assert near.curve()(power) <= full.curve()(power) + 1e-9
        assert near.curve()(power) == pytest.approx(full.curve()(power), rel=2e-2)


def test_no_test_passes_the_curve() -> None:
    generator = np.random.default_rng(0)
    entered = generator.random((20_000, 20)) < SAMPLED.rate
    absent = generator.standard_normal((2, 20_000, 20)) / SAMPLED.ratio
    present = absent[0] + entered
    curve = SAMPLED.curve()
    for cut in (5.0, 15.0, 25.0):
        power = float((present.sum(-1) > cut).mean())
        alarms = float((absent[1].sum(-1) > cut).mean())
        # Three standard deviations of a share of 20,000.
        assert alarms + 3 * (alarms / 20_000) ** 0.5 >= curve(power - 0.011)


def test_a_ratio_is_found_by_its_epsilon() -> None:
    for law in (SAMPLED, ReleaseLaw(ratio=1, rate=1, compositions=4, adjacency="replace-one")):
        ratio = law.ratio_of_epsilon(2.0, 1e-5)
        assert law.with_ratio(ratio).epsilon(1e-5) == pytest.approx(2.0, rel=1e-3)
    assert SAMPLED.with_ratio(0.0).epsilon(1e-5) == 0.0


# Claim, mu, and the epsilon of half of its noise, at delta 1e-5: to three digits.
KNOWN = [
    (0.5, 0.142, 1.07),
    (1.0, 0.268, 2.15),
    (2.0, 0.502, 4.39),
    (4.0, 0.925, 9.08),
    (8.0, 1.666, 19.1),
]


@pytest.mark.parametrize(("epsilon", "mu", "of_half"), KNOWN)
def test_mu_and_epsilon_are_the_known_ones(epsilon: float, mu: float, of_half: float) -> None:
    found = gaussian_mu(epsilon, 1e-5)
    assert found == pytest.approx(mu, rel=4e-3)
    assert gaussian_epsilon(2 * found, 1e-5) == pytest.approx(of_half, rel=4e-3)


@given(mu=st.floats(0.01, 20), delta=st.floats(1e-10, 0.3))
def test_epsilon_is_dp_accountings(mu: float, delta: float) -> None:
    library = dp_accounting.get_epsilon_gaussian(1 / mu, delta)
    assert gaussian_epsilon(mu, delta) == pytest.approx(library, rel=1e-6, abs=1e-9)


@given(epsilon=st.floats(0.01, 50), delta=st.floats(1e-10, 0.1))
def test_mu_is_the_inverse(epsilon: float, delta: float) -> None:
    assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("mu", [0.0, 1e-300, 1e-12, 1e-6])
def test_next_to_no_signal_is_no_epsilon(mu: float) -> None:
    assert gaussian_epsilon(mu, 1e-5) == 0.0
    assert gaussian_delta(mu, 1.0) == 0.0


def test_numbers_out_of_range_are_refused() -> None:
    for mu, delta in ((-1.0, 1e-5), (float("nan"), 1e-5), (1.0, 0.0), (1.0, 1.0)):
        with pytest.raises(ValueError, match="must"):
            gaussian_epsilon(mu, delta)
    with pytest.raises(ValueError, match="epsilon"):
        gaussian_mu(-1.0, 1e-5)
    assert gaussian_epsilon(1e300, 1e-5) > 1e11


def test_noise_that_is_all_but_missing_has_a_finite_lower_bound() -> None:
    """The library's quotient overflows there; an alarm about it must not be lost."""
    law = ReleaseLaw(ratio=100.0, rate=0.3, compositions=100, adjacency="add-or-remove-one")
    assert law.epsilon(1e-5) == 700.0


# -- the bound for Gaussian noise: its significance and its power, as often as they are stated ----


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
