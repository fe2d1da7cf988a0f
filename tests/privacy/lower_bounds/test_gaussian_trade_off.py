"""Exact epsilon of Gaussian noise, against dp-accounting and figures from elsewhere."""

import dp_accounting
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.privacy.lower_bounds.release_law import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
)

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
