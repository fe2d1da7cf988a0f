"""The noise multiplier of a budget that was asked for."""

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fedaudit.privacy.mechanisms.registry import mechanism_of
from tests.privacy.specs_of_privacy import a_spec
from tests.refusals import refused_by

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
