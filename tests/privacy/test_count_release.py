"""How far a unit moves the counts, and what noise on them costs."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.fairness.noised_counts import bounded_counts
from fedaudit.privacy.accounting.accountant import RDP_ORDERS
from fedaudit.privacy.accounting.epsilon_tables import pure_curve
from fedaudit.privacy.count_release import CountRelease, count_release
from fedaudit.spec.errors import InvalidInputError
from fedaudit.spec.parse import parse_spec
from tests.privacy.gaussian_exact import exact_delta
from tests.training.specs import groups_spec


def release(**noise: Any) -> CountRelease:
    settings = {"mechanism": "discrete-laplace", "epsilon": 1.0, "unit": "record", **noise}
    spec = groups_spec(
        training__hypotheses=1, training__stopping={"patience": None}, fairness__noise=settings
    )
    found = count_release(parse_spec(spec))
    assert found is not None
    return found


def test_discrete_laplace_noise_costs_its_epsilon_and_no_more() -> None:
    found = release(epsilon=0.5, unit="client", max_rows_per_client=7)
    assert found.l1 == 7 * found.attributes
    assert found.scale == Fraction(found.l1) / Fraction(0.5)
    assert (found.epsilon(1), found.delta) == (0.5, 0.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.94])
def test_gaussian_noise_keeps_its_epsilon_by_the_exact_curve(epsilon: float) -> None:
    found = release(mechanism="gaussian", epsilon=epsilon, delta=1e-5)
    assert found.epsilon(1) == pytest.approx(epsilon, rel=1e-9)
    assert found.epsilon(1) <= epsilon
    exact = exact_delta(epsilon, found.noise_multiplier)
    assert 0 < exact <= 1e-5


def test_an_epsilon_that_no_noise_can_show_is_refused_at_its_field() -> None:
    with pytest.raises(InvalidInputError, match="raise epsilon or delta"):
        release(mechanism="gaussian", epsilon=0.001, delta=1e-9)


def test_randomised_response_bounds_a_pure_epsilon_at_every_order() -> None:
    """By the definition of Renyi divergence, at orders where no power overflows."""
    for epsilon in (0.1, 1.0, 5.0):
        yes = np.exp(epsilon) / (1 + np.exp(epsilon))
        for order, found in zip(RDP_ORDERS, pure_curve(epsilon), strict=True):
            if order > 64:
                assert found <= epsilon
                continue
            moment = yes**order * (1 - yes) ** (1 - order) + (1 - yes) ** order * yes ** (1 - order)
            assert found == pytest.approx(np.log(moment) / (order - 1), rel=1e-9)


@given(
    counts=st.lists(st.lists(st.integers(0, 9), min_size=12, max_size=12), min_size=1, max_size=6),
    bound=st.integers(1, 12),
    seed=st.integers(0, 2**32),
)
def test_no_client_moves_the_counts_by_more_than_its_bound(counts, bound, seed):
    """The attack on the bound: leave the client out that has most, all else the same."""
    clients = np.array(counts, dtype=np.int64).reshape(-1, 3, 4)
    generator = np.random.default_rng(seed)
    alone = [bounded_counts(one[None], max_rows=bound, generator=generator) for one in clients]
    for mine, all_rows in zip(alone, clients, strict=True):
        assert mine.sum() == min(bound, all_rows.sum())
        assert (mine <= all_rows).all()
        assert (mine >= 0).all()
    together = bounded_counts(clients, max_rows=bound, generator=generator)
    assert together.sum() == sum(mine.sum() for mine in alone)
