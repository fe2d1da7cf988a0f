"""What a run will spend, looked up by how much was composed."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.privacy.accounting.accountant import RDP_ORDERS, added_epsilon
from fedaudit.privacy.accounting.privacy_events import (
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    event_from_dict,
)
from fedaudit.privacy.mechanisms.registry import mechanism_of
from tests.privacy.accounting.spending import DELTA, spent
from tests.privacy.specs_of_privacy import central, local


def plan_of(spec, names=("a", "b", "c")):
    return mechanism_of(spec).spending_plan(training_clients=100, names=names)


def only_line(plan):
    [[line]] = plan.lines.values()
    return line


def test_everyone_pays_for_every_round_of_a_trusted_server():
    plan = plan_of(central())
    assert (plan.subject_kind, plan.subjects) == ("population", ("everyone",))
    assert only_line(plan).event == PoissonSampled(0.1, Gaussian(1.1))
    assert (plan.adjacency, plan.accountant, plan.steps) == ("add-or-remove-one", "rdp", 50)


def test_a_cohort_of_fixed_size_is_accounted_for_by_replacement():
    plan = plan_of(central(cohort={"clients": 10}))
    assert only_line(plan).event == FixedSizeSampled(100, 10, Gaussian(1.1))
    assert plan.adjacency == "replace-one"
    # Replacing a client moves the sum by two clips: without sampling, half the multiplier.
    everyone = plan_of(central(cohort={"clients": 200}, rounds=3))
    assert only_line(everyone).epsilons[-1] == pytest.approx(spent(Gaussian(0.55), 3))


def test_a_client_that_adds_the_noise_itself_pays_for_its_own_uploads():
    plan = plan_of(local())
    assert (plan.subject_kind, plan.subjects) == ("client", ("a", "b", "c"))
    # Two datasets of one client may give updates two clips apart, and the server sees who sends.
    [found] = plan.epsilons("server", subjects=[2], compositions=[7])
    assert found == pytest.approx(spent(Gaussian(4.0), 7))


SPECS = {
    "poisson, rdp": central(),
    "poisson, pld": central(accountant="pld", rounds=20),
    "fixed": central(cohort={"clients": 10}),
    "local, rdp": local(),
    "local, pld": local(accountant="pld", rounds=20),
    "adaptive": central(clip={"adaptive": {"initial": 1.0, "count_noise": 5.0}}),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_line_starts_at_zero_never_falls_and_ends_at_the_accountants_figure(spec):
    plan = plan_of(spec)
    line = only_line(plan)
    assert line.epsilons.shape == (spec.training.rounds + 1,)
    assert line.epsilons[0] == 0
    assert (np.diff(line.epsilons) >= 0).all()
    assert np.isfinite(line.epsilons).all()
    alone = spent(line.event, plan.steps, by=plan.accountant, adjacency=plan.adjacency)
    assert line.epsilons[-1] == pytest.approx(alone, rel=1e-12)


@given(
    noise_multiplier=st.floats(0.3, 50),
    rate=st.floats(0.001, 1),
    rounds=st.integers(1, 200),
    delta=st.floats(1e-9, 0.1),
)
@settings(max_examples=8, deadline=None)
def test_any_line_is_the_accountants_figure_everywhere(noise_multiplier, rate, rounds, delta):
    cohort = {"sampling": "poisson", "rate": rate}
    plan = plan_of(
        central(noise_multiplier=noise_multiplier, cohort=cohort, rounds=rounds, delta=delta)
    )
    line = only_line(plan)
    assert (np.diff(line.epsilons) >= 0).all()
    for count in {1, (rounds + 1) // 2, rounds}:
        # The library calls a divergence far below delta^2 no loss at all; the table does not.
        exact = spent(line.event, count, adjacency=plan.adjacency, delta=delta)
        assert exact == pytest.approx(line.epsilons[count], rel=1e-12) or exact == 0


def test_between_exact_places_a_loss_distribution_is_never_understated():
    plan, renyi = plan_of(central(accountant="pld", rounds=30)), plan_of(central(rounds=30))
    line = only_line(plan)
    assert (line.epsilons <= only_line(renyi).epsilons).all()
    for count in (3, 17, 29):
        exact = spent(line.event, count, by="pld", adjacency=plan.adjacency)
        # The figure itself is rounded up to a grid of losses, more coarsely between the ends.
        assert line.epsilons[count] >= exact - 1e-6


def test_an_epsilon_too_large_for_loss_distributions_is_that_of_renyi_orders():
    loud = {"noise_multiplier": 0.01, "rounds": 1000}
    line, renyi = (
        only_line(plan_of(central(**loud, **more))) for more in ({"accountant": "pld"}, {})
    )
    assert (line.epsilons == renyi.epsilons).all()


def test_more_was_composed_than_planned():
    plan = plan_of(central())
    line = only_line(plan)
    longer = only_line(plan_of(central(rounds=60)))
    assert line.after([0, 50, 60]) == pytest.approx(longer.epsilons[[0, 50, 60]])
    short = only_line(plan_of(central(accountant="pld", rounds=5)))
    assert short.after(6) >= short.after(5)


def test_a_budget_lasts_for_the_compositions_that_stay_within_it():
    line = only_line(plan_of(central()))
    for budget in (line.epsilons[7], np.nextafter(line.epsilons[7], 9), line.epsilons[8] - 1e-9):
        assert line.steps_within(float(budget)) == 7
    assert line.steps_within(line.epsilons[1] / 2) == 0
    assert line.steps_within(1e6) == 50


def test_the_largest_epsilon_is_that_of_whoever_took_part_most():
    plan = plan_of(local())
    line = only_line(plan)
    counts = np.array([3, 0, 9])
    each = plan.epsilons("server", subjects=[0, 1, 2], compositions=counts)
    assert (each == line.epsilons[counts]).all()
    [found] = plan.spent({"server": counts})
    assert (found.observer, found.value) == ("server", line.epsilons[9])
    assert found.value == plan.largest("server", 9)
    assert plan_of(local(), names=()).largest("server", 9) == found.value


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_curves_of_runs_add_up_to_no_less_than_their_epsilons(spec):
    plan = plan_of(spec)
    [observer] = plan.observers
    curve = plan.curve(observer, 20)
    assert curve.shape == (len(RDP_ORDERS),)
    epsilon = max(0.0, float((curve + added_epsilon(RDP_ORDERS, DELTA)).min()))
    assert epsilon >= only_line(plan).epsilons[20] - 1e-12
    assert (plan.curve(observer, 0) == 0).all()


def test_the_ledger_keeps_the_event_and_what_it_is_counted_for():
    spec = central()
    plan = plan_of(spec)
    inputs = mechanism_of(spec).inputs(n=3, plan=plan)
    assert event_from_dict(json.loads(inputs.event)) == only_line(plan).event
    counted = (inputs.delta, inputs.adjacency, inputs.accountant)
    assert counted == (DELTA, "add-or-remove-one", "rdp")
    assert (inputs.noise_multiplier, inputs.clip, inputs.radius) == (1.1, 1.0, None)
    # A moving clip has no one number. The multiplier bounds updates and count together.
    moving = SPECS["adaptive"]
    assert mechanism_of(moving).inputs(n=3, plan=plan_of(moving)).clip is None
    assert only_line(plan_of(moving)).event == only_line(plan).event
