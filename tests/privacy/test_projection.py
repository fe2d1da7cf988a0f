"""What an experiment is projected to cost."""

import numpy as np
import pytest

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.records.record_use import drawn_budgets, record_use
from tests.privacy.specs_of_privacy import a_spec, records_spec


def laplace(**settings):
    return a_spec({"mechanism": "laplace-l2", "noise_multiplier": 5, **settings})


def test_without_a_budget_every_round_may_cost_a_client():
    found = mechanism_of(laplace()).project_cost(n=2, training_clients=100)
    assert found.leakage_worst_case == 20.0  # 50 rounds of 0.4
    assert found.leakage_expected == pytest.approx(50 * 7 / 100 * 0.4)
    assert found.epsilon == []
    assert found.budget_ends_in_round is None
    assert set(found.reasons) == {"epsilon", "budget_ends_in_round", "log_ratio_worst_case"}


def test_the_theorem_has_a_sum_where_radius_and_clip_are_public():
    fixed = {"radius": 0.5, "clip": 0.25}
    found = mechanism_of(laplace(**fixed)).project_cost(n=2, training_clients=100)
    assert found.log_ratio_worst_case == pytest.approx(50 * 2 / (5 * 0.5) * 2 * 0.25)
    # The same noise under a radius of another size: n/nu is smaller, the theorem's sum is not.
    twin = laplace(noise_multiplier=5 * 2**20, radius=0.5 / 2**20, clip=0.25)
    same = mechanism_of(twin).project_cost(n=2, training_clients=100)
    assert same.leakage_worst_case < found.leakage_worst_case / 1e6
    assert same.log_ratio_worst_case == found.log_ratio_worst_case
    fewer = mechanism_of(laplace(**fixed, client_budget=1.2)).project_cost(
        n=2, training_clients=100
    )
    assert fewer.log_ratio_worst_case == pytest.approx(3 * 0.4)
    for missing, named in (({"radius": 0.5}, "not clipped"), ({"clip": 0.25}, "adaptive")):
        without = mechanism_of(laplace(**missing)).project_cost(n=2, training_clients=100)
        assert without.log_ratio_worst_case is None
        assert named in without.reasons["log_ratio_worst_case"]


def test_noise_layer_by_layer_needs_the_layers():
    mechanism = mechanism_of(laplace(radius=0.5, clip=0.25, per_layer=True))
    found = mechanism.project_cost(n=7, training_clients=100, layers=(3, 4))
    assert found.log_ratio_worst_case == pytest.approx(50 * 5 / (5 * 0.5) * 2 * 0.25)
    with pytest.raises(ValueError, match="layer by layer"):
        mechanism.project_cost(n=7, training_clients=100)


def test_a_budget_ends_in_the_round_after_the_last_that_it_allows():
    found = mechanism_of(laplace(client_budget=1.2)).project_cost(n=2, training_clients=100)
    assert found.leakage_worst_case == 1.2
    assert found.budget_ends_in_round == 4
    nothing = mechanism_of(laplace(client_budget=0.3)).project_cost(n=2, training_clients=100)
    assert (nothing.leakage_worst_case, nothing.leakage_expected) == (0.0, 0.0)
    assert nothing.budget_ends_in_round == 1


@pytest.mark.parametrize("allowed", [1, 3, 10, 49])
def test_the_mean_under_a_budget_is_that_of_a_capped_binomial(allowed):
    found = mechanism_of(laplace(client_budget=allowed * 0.4)).project_cost(
        n=2, training_clients=100
    )
    draws = np.random.default_rng(0).binomial(50, 0.07, size=200_000)
    capped = np.minimum(draws, allowed) * 0.4
    # Five standard errors: a false alarm in about one of a million seeds.
    tolerance = 5 * capped.std() / np.sqrt(len(draws))
    assert found.leakage_expected == pytest.approx(capped.mean(), abs=tolerance)


def test_long_runs_do_not_underflow():
    spec = a_spec(
        {"mechanism": "laplace-l2", "noise_multiplier": 1, "client_budget": 7_000}, rounds=100_000
    )
    found = mechanism_of(spec).project_cost(n=1, training_clients=100)
    # The mean of a binomial(100000, 0.07) capped at its mean: sd * sqrt(1 / 2 pi) below it.
    deviation = np.sqrt(100_000 * 0.07 * 0.93)
    assert found.leakage_expected == pytest.approx(7_000 - deviation / np.sqrt(2 * np.pi), abs=0.5)


def test_without_a_mechanism_nothing_is_projected_and_each_null_says_why():
    found = mechanism_of(a_spec({"mechanism": "none"})).project_cost(n=2, training_clients=100)
    assert found.leakage_worst_case is None
    assert found.leakage_expected is None
    assert set(found.reasons) == {
        *("leakage_worst_case", "leakage_expected", "log_ratio_worst_case", "epsilon"),
        *("budget_ends_in_round", "noise_multiplier"),
    }


POISSON = {"sampling": "poisson", "rate": 0.1}


def central(**settings):
    privacy = {"mechanism": "gaussian-central", "noise_multiplier": 1.1, "clip": 1, "delta": 1e-5}
    return a_spec({**privacy, **settings}, cohort=POISSON, hypotheses=1)


def local(**settings):
    privacy = {"mechanism": "gaussian-local", "noise_multiplier": 8, "clip": 1, "delta": 1e-5}
    return a_spec({**privacy, **settings}, hypotheses=1)


def project(spec, **more):
    return mechanism_of(spec).project_cost(n=2, training_clients=100, **more)


def table_of(spec):
    plan = mechanism_of(spec).spending_plan(training_clients=100)
    [[line]] = plan.lines.values()
    return line.epsilons


def test_an_epsilon_is_projected_for_whoever_looks():
    found = project(central())
    assert found.epsilon == [
        {
            "observer": "final_model",
            "delta": 1e-5,
            "adjacency": "add-or-remove-one",
            "value": table_of(central())[-1],
        }
    ]
    assert found.leakage_worst_case is None
    assert found.leakage_expected is None
    assert set(found.reasons) == {
        "leakage_worst_case",
        "leakage_expected",
        "log_ratio_worst_case",
        "budget_ends_in_round",
    }


def test_an_epsilon_budget_ends_a_run_before_the_round_that_would_pass_it():
    table = table_of(central())
    found = project(central(epsilon_budget=float(table[9])))
    assert found.budget_ends_in_round == 10
    assert found.epsilon[0]["value"] == table[9]
    ample = project(central(epsilon_budget=float(table[-1])))
    assert ample.budget_ends_in_round is None
    assert "all 50 rounds" in ample.reasons["budget_ends_in_round"]
    nothing = project(central(epsilon_budget=float(table[1]) / 2))
    assert (nothing.budget_ends_in_round, nothing.epsilon[0]["value"]) == (1, 0)


@pytest.mark.parametrize("allowed", [50, 4])
def test_the_mean_epsilon_of_clients_that_are_drawn_now_and_then(allowed):
    table = table_of(local())
    found = project(local(epsilon_budget=float(table[allowed])))
    [entry] = found.epsilon
    assert (entry["observer"], entry["adjacency"]) == ("server", "replace-one")
    assert entry["value"] == table[allowed]
    draws = np.random.default_rng(0).binomial(50, 0.07, size=200_000)
    spent = table[np.minimum(draws, allowed)]
    # Five standard errors: a false alarm in about one of a million seeds.
    tolerance = 5 * spent.std() / np.sqrt(len(spent))
    assert entry["expected"] == pytest.approx(spent.mean(), abs=tolerance)


def test_records_are_projected_from_public_numbers_alone():
    found = project(records_spec())
    worst = {entry["observer"]: entry["value"] for entry in found.epsilon}
    assert worst["final_model"] == pytest.approx(10.0, rel=1e-6)
    assert worst["server"] > worst["final_model"]
    assert "records' own" in found.reasons["budget_ends_in_round"]
    everyone = {
        entry["observer"]: entry["value"] for entry in project(records_spec(rate=1.0)).epsilon
    }
    assert everyone["server"] == everyone["final_model"]


@pytest.mark.parametrize("baseline", [None, "uniform", "filter"])
def test_with_the_data_at_hand_records_are_projected_by_their_plan(baseline):
    spec, client_of = records_spec(baseline), np.repeat([0, 1], 50)
    budgets = drawn_budgets(spec, keys=np.arange(100, dtype=np.uint64))
    use = record_use(spec, budgets=budgets, client_of=client_of, clients=2)
    plan = mechanism_of(spec).spending_plan(training_clients=2, records=use)
    known = {one["observer"]: one["value"] for one in project(spec, plan=plan).epsilon}
    assert known == {observer: plan.largest(observer, 6) for observer in plan.observers}
    leaves = "leaves before the round" in project(spec).reasons["budget_ends_in_round"]
    assert leaves == (baseline == "filter")
    for one in project(spec).epsilon:
        assert known[one["observer"]] <= one["value"]


def test_what_cannot_be_projected_says_why():
    unknown = project(records_spec("uniform"))
    assert unknown.epsilon == []
    assert "follows from the data" in unknown.reasons["epsilon"]
    free = project(records_spec("privacy-free"))
    assert free.epsilon == []
    assert "without noise" in free.reasons["epsilon"]
