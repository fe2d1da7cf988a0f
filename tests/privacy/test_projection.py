"""What an experiment is projected to cost."""

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.records.record_use import drawn_budgets, record_use
from tests.privacy.specs_of_privacy import a_spec, central, laplace, local, records_spec
from tests.refusals import refused_by


def project(spec, *, n=2, **more):
    return mechanism_of(spec).project_cost(n=n, training_clients=100, **more)


def test_without_a_budget_every_round_may_cost_a_client():
    found = project(laplace())
    assert found.leakage_worst_case == 20.0  # 50 rounds of 0.4
    assert found.leakage_expected == pytest.approx(50 * 7 / 100 * 0.4)
    assert found.epsilon == []
    assert found.budget_ends_in_round is None


def test_the_theorem_has_a_sum_where_radius_and_clip_are_public():
    fixed = {"radius": 0.5, "clip": 0.25}
    found = project(laplace(**fixed))
    assert found.log_ratio_worst_case == pytest.approx(50 * 2 / (5 * 0.5) * 2 * 0.25)
    # The same noise under a radius of another size: n/nu is smaller, the theorem's sum is not.
    twin = laplace(noise_multiplier=5 * 2**20, radius=0.5 / 2**20, clip=0.25)
    same = project(twin)
    assert same.leakage_worst_case < found.leakage_worst_case / 1e6
    assert same.log_ratio_worst_case == found.log_ratio_worst_case
    fewer = project(laplace(**fixed, client_budget=1.2))
    assert fewer.log_ratio_worst_case == pytest.approx(3 * 0.4)
    for missing, named in (({"radius": 0.5}, "not clipped"), ({"clip": 0.25}, "adaptive")):
        without = project(laplace(**missing))
        assert without.log_ratio_worst_case is None
        assert named in without.reasons["log_ratio_worst_case"]


def test_noise_layer_by_layer_needs_the_layers():
    layered = laplace(radius=0.5, clip=0.25, per_layer=True)
    found = project(layered, n=7, layers=(3, 4))
    assert found.log_ratio_worst_case == pytest.approx(50 * 5 / (5 * 0.5) * 2 * 0.25)
    with pytest.raises(ValueError, match="layer by layer"):
        project(layered, n=7)


def test_a_budget_ends_in_the_round_after_the_last_that_it_allows():
    found = project(laplace(client_budget=1.2))
    assert found.leakage_worst_case == 1.2
    assert found.budget_ends_in_round == 4
    nothing = project(laplace(client_budget=0.3))
    assert (nothing.leakage_worst_case, nothing.leakage_expected) == (0.0, 0.0)
    assert nothing.budget_ends_in_round == 1


@pytest.mark.parametrize("allowed", [1, 10])
def test_the_mean_under_a_budget_is_that_of_a_capped_binomial(allowed):
    found = project(laplace(client_budget=allowed * 0.4))
    draws = np.random.default_rng(0).binomial(50, 0.07, size=200_000)
    capped = np.minimum(draws, allowed) * 0.4
    # Five standard errors: a false alarm in about one of a million seeds.
    tolerance = 5 * capped.std() / np.sqrt(len(draws))
    assert found.leakage_expected == pytest.approx(capped.mean(), abs=tolerance)


def test_long_runs_do_not_underflow():
    found = project(laplace(noise_multiplier=1, client_budget=7_000, rounds=100_000), n=1)
    # The mean of a binomial(100000, 0.07) capped at its mean: sd * sqrt(1 / 2 pi) below it.
    deviation = np.sqrt(100_000 * 0.07 * 0.93)
    assert found.leakage_expected == pytest.approx(7_000 - deviation / np.sqrt(2 * np.pi), abs=0.5)


def table_of(spec):
    plan = mechanism_of(spec).spending_plan(training_clients=100)
    [[line]] = plan.lines.values()
    return line.epsilons


def test_an_epsilon_is_projected_for_whoever_looks():
    looks = {"observer": "final_model", "delta": 1e-5, "adjacency": "add-or-remove-one"}
    assert project(central()).epsilon == [{**looks, "value": table_of(central())[-1]}]
    for baseline, reason in (
        ("uniform", "follows from the data"),
        ("privacy-free", "without noise"),
    ):
        unknown = project(records_spec(baseline))
        assert unknown.epsilon == []
        assert reason in unknown.reasons["epsilon"]


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


def by_observer(found):
    return {entry["observer"]: entry["value"] for entry in found.epsilon}


def test_records_are_projected_from_public_numbers_alone():
    found = project(records_spec())
    worst, everyone = by_observer(found), by_observer(project(records_spec(rate=1.0)))
    assert worst["final_model"] == pytest.approx(10.0, rel=1e-6)
    assert worst["server"] > worst["final_model"]
    assert "records' own" in found.reasons["budget_ends_in_round"]
    assert everyone["server"] == everyone["final_model"]


@pytest.mark.parametrize("baseline", [None, "uniform", "filter"])
def test_with_the_data_at_hand_records_are_projected_by_their_plan(baseline):
    spec, client_of = records_spec(baseline), np.repeat([0, 1], 50)
    budgets = drawn_budgets(spec, keys=np.arange(100, dtype=np.uint64))
    use = record_use(spec, budgets=budgets, client_of=client_of, clients=2)
    plan = mechanism_of(spec).spending_plan(training_clients=2, records=use)
    known = by_observer(project(spec, plan=plan))
    assert known == {observer: plan.largest(observer, 6) for observer in plan.observers}
    leaves = "leaves before the round" in project(spec).reasons["budget_ends_in_round"]
    assert leaves == (baseline == "filter")
    for one in project(spec).epsilon:
        assert known[one["observer"]] <= one["value"]


# -- the noise multiplier of a budget that was asked for -----------------------------------------


TRAINING = 160
POISSON = st.builds(
    lambda rate: {"sampling": "poisson", "rate": rate}, st.sampled_from([0.01, 0.1, 1.0])
)
ALLOCATED = st.just({"sampling": "allocation", "every": 10})
FIXED = st.builds(lambda clients: {"clients": clients}, st.sampled_from([7, 40, 160]))
ADAPTIVE = {"adaptive": {"initial": 1.0, "count_noise": 1e6}}


def gaussian(mechanism, **changes):
    return {"mechanism": mechanism, "noise_multiplier": 1, "clip": 1.0, "delta": 1e-5, **changes}


CENTRAL = st.builds(
    lambda clip, delta: gaussian("gaussian-central", clip=clip, delta=delta),
    st.sampled_from([1.0, ADAPTIVE]),
    st.sampled_from([1e-3, 1e-6]),
)
LAPLACE = {"mechanism": "laplace-l2", "noise_multiplier": 1}
BY_ORDERS = st.one_of(
    st.tuples(CENTRAL, POISSON | FIXED | ALLOCATED),
    st.tuples(st.sampled_from([gaussian("gaussian-local"), LAPLACE]), FIXED),
)


def projected(privacy, training):
    found = mechanism_of(a_spec(privacy, hypotheses=1, **training)).project_cost(
        n=7, training_clients=TRAINING
    )
    if found.epsilon:
        return found.epsilon[0]["value"]
    return found.leakage_worst_case


def least_noise(privacy, training, target):
    mechanism = mechanism_of(a_spec(privacy, hypotheses=1, **training))
    return mechanism.targeted_figure(n=7, training_clients=TRAINING).least_noise(target)


def check_least(privacy, training, target):
    found = least_noise(privacy, training, target)
    assert float(f"{found:.4g}") == found
    assert projected({**privacy, "noise_multiplier": found}, training) <= target
    assert projected({**privacy, "noise_multiplier": found * 0.99}, training) > target
    return found


@settings(max_examples=8, deadline=None)
@given(of=BY_ORDERS, rounds=st.sampled_from([1, 30, 300]), target=st.floats(0.1, 50))
def test_the_noise_is_the_least_that_meets_the_target(of, rounds, target):
    privacy, cohort = of
    assume(rounds > 1 or cohort.get("sampling") != "allocation")  # which takes whole blocks
    check_least(privacy, {"rounds": rounds, "cohort": cohort}, target)


def test_so_it_is_by_loss_distributions_with_less_noise_than_by_orders():
    privacy = gaussian("gaussian-central")
    training = {"rounds": 300, "cohort": {"sampling": "poisson", "rate": 0.1}}
    closer = check_least({**privacy, "accountant": "pld"}, training, 0.5)
    assert closer < least_noise(privacy, training, 0.5)


@pytest.mark.parametrize(
    ("accountant", "library"), [("rdp", RdpAccountant()), ("pld", PLDAccountant())]
)
def test_the_library_by_itself_finds_the_target_met_and_hardly_more(accountant, library):
    training = {"rounds": 100, "cohort": {"sampling": "poisson", "rate": 0.05}}
    privacy = gaussian("gaussian-central", accountant=accountant)
    found = least_noise(privacy, training, 2.0)
    event = dp_accounting.PoissonSampledDpEvent(0.05, dp_accounting.GaussianDpEvent(found))
    epsilon = library.compose(event, 100).get_epsilon(1e-5)
    # The library's own Renyi orders are others than ours.
    assert 2.0 * 0.99 < epsilon <= 2.0 * (1.01 if accountant == "rdp" else 1.0)


def test_a_budget_that_ends_the_run_earlier_does_not_lower_the_noise():
    for privacy, budget in (
        (gaussian("gaussian-local"), {"epsilon_budget": 0.5}),
        (LAPLACE, {"client_budget": 0.5}),
    ):
        training = {"rounds": 50}
        alone = least_noise(privacy, training, 2.0)
        assert least_noise({**privacy, **budget}, training, 2.0) == alone


def test_a_target_beyond_every_multiplier_says_what_is_needed():
    [fault] = refused_by(least_noise, gaussian("gaussian-local"), {"rounds": 5}, 1e-4)
    assert fault.pointer == "/privacy/target/epsilon"
    needed = float(fault.message.split("come to epsilon ")[1].split(";")[0])
    assert least_noise(gaussian("gaussian-local"), {"rounds": 5}, needed) <= 1e6
