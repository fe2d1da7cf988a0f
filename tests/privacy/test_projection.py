"""What an experiment is projected to cost."""

import numpy as np
import pytest
from specs_of_privacy import a_spec

from fedaudit.privacy.projection import project_cost


def laplace(**settings):
    return a_spec({"mechanism": "laplace-l2", "noise_multiplier": 5, **settings})


def test_without_a_budget_every_round_may_cost_a_client():
    found = project_cost(laplace(), n=2, training_clients=100)
    assert found.leakage_worst_case == 20.0  # 50 rounds of 0.4
    assert found.leakage_expected == pytest.approx(50 * 7 / 100 * 0.4)
    assert found.epsilon == []
    assert found.budget_ends_in_round is None
    assert set(found.reasons) == {"epsilon", "budget_ends_in_round"}


def test_a_budget_ends_in_the_round_after_the_last_that_it_allows():
    found = project_cost(laplace(client_budget=1.2), n=2, training_clients=100)
    assert found.leakage_worst_case == 1.2
    assert found.budget_ends_in_round == 4
    nothing = project_cost(laplace(client_budget=0.3), n=2, training_clients=100)
    assert (nothing.leakage_worst_case, nothing.leakage_expected) == (0.0, 0.0)
    assert nothing.budget_ends_in_round == 1


def test_a_budget_that_all_rounds_stay_within_never_ends():
    found = project_cost(laplace(client_budget=20), n=2, training_clients=100)
    assert found.leakage_worst_case == 20.0
    assert found.budget_ends_in_round is None
    assert "50 rounds" in found.reasons["budget_ends_in_round"]


@pytest.mark.parametrize("allowed", [1, 3, 10, 49])
def test_the_mean_under_a_budget_is_that_of_a_capped_binomial(allowed):
    found = project_cost(laplace(client_budget=allowed * 0.4), n=2, training_clients=100)
    draws = np.random.default_rng(0).binomial(50, 0.07, size=200_000)
    capped = np.minimum(draws, allowed) * 0.4
    # Five standard errors: a false alarm in about one of a million seeds.
    tolerance = 5 * capped.std() / np.sqrt(len(draws))
    assert found.leakage_expected == pytest.approx(capped.mean(), abs=tolerance)


def test_where_everyone_takes_part_in_each_round_the_mean_is_the_worst_case():
    found = project_cost(laplace(client_budget=1.2), n=2, training_clients=7)
    assert found.leakage_expected == found.leakage_worst_case == 1.2


def test_long_runs_do_not_underflow():
    spec = a_spec(
        {"mechanism": "laplace-l2", "noise_multiplier": 1, "client_budget": 7_000}, rounds=100_000
    )
    found = project_cost(spec, n=1, training_clients=100)
    # The mean of a binomial(100000, 0.07) capped at its mean: sd * sqrt(1 / 2 pi) below it.
    deviation = np.sqrt(100_000 * 0.07 * 0.93)
    assert found.leakage_expected == pytest.approx(7_000 - deviation / np.sqrt(2 * np.pi), abs=0.5)


def test_without_a_mechanism_nothing_is_projected_and_each_null_says_why():
    found = project_cost(a_spec({"mechanism": "none"}), n=2, training_clients=100)
    assert found.leakage_worst_case is None
    assert found.leakage_expected is None
    assert set(found.reasons) == {
        "leakage_worst_case",
        "leakage_expected",
        "epsilon",
        "budget_ends_in_round",
    }
