"""Plans for records: rPDP-FL and its baselines on the settings of MNIST, a tenth of the records."""

import numpy as np
import pytest

from fedaudit.privacy.accounting.accountant import added_epsilon
from fedaudit.privacy.accounting.two_stage import TWO_STAGE_ORDERS
from fedaudit.privacy.records.record_plans import TREATED_AS_PUBLIC, longest_lasting
from fedaudit.privacy.records.record_use import drawn_budgets, record_spending, record_use
from tests.privacy.specs_of_privacy import records_spec
from tests.refusals import refused_by

RECORDS = (396, 200, 40)
CLIENT_OF = np.repeat(np.arange(3), RECORDS)


def spec_of(baseline, *, batch_size=32, **more):
    known = {"rate": 0.8, "rounds": 15, "steps": 50, "delta": 1e-4}
    return records_spec(baseline, batch_size=batch_size, **known, **more)


BUDGETS = drawn_budgets(
    spec_of(None).model_copy(update={"seed": 1}), keys=np.arange(sum(RECORDS), dtype=np.uint64)
)


def plan(baseline=None, *, budgets=BUDGETS, **more):
    spec = spec_of(baseline, **more)
    return record_use(spec, budgets=budgets, client_of=CLIENT_OF[: len(budgets)], clients=3)


def spent(found):
    """What each record spends against those who see the models."""
    return record_spending(found, rounds=15, delta=1e-4).epsilons("final_model", 15)


def test_personalised_records_exhaust_their_budgets_together():
    found = plan()
    assert len(set(found.runs)) == 1
    assert found.runs[0].noise_multiplier == pytest.approx(12.373, abs=0.012)
    assert (spent(found) <= BUDGETS).all()
    assert (spent(found) >= 0.999 * BUDGETS).all()
    fitted = plan(inversion="curve-fit")
    assert fitted.runs == found.runs
    assert ((spent(fitted) > BUDGETS) >= (BUDGETS == 0.1)).all()


def test_the_noise_does_not_depend_on_budgets():
    assert plan(budgets=np.array([0.2, 7.0])).runs == plan().runs


def test_every_client_samples_its_batch_on_average():
    assert np.bincount(CLIENT_OF, plan("uniform").rates) == pytest.approx([32, 32, 32], rel=1e-6)
    assert np.bincount(CLIENT_OF, plan("uniform", batch_size=64).rates)[2] == 40


def test_privacy_free_bounds_nothing():
    assert plan("privacy-free").runs is None


def test_uniform_spends_one_epsilon_whatever_the_budgets():
    found = plan("uniform")
    assert spent(found) == pytest.approx(np.full(len(BUDGETS), 5.0), rel=1e-6)
    assert ((spent(found) > BUDGETS) == (BUDGETS < 5)).all()
    noises = [run.noise_multiplier for run in found.runs]
    assert noises == sorted(noises)  # the fewer the records, the higher the rate


def test_strong_for_all_spends_the_smallest_budget():
    found = spent(plan("strong-for-all"))
    assert found == pytest.approx(np.full(len(BUDGETS), 0.1), rel=1e-6)
    assert (found <= BUDGETS).all()
    assert any("smallest budget" in note for note in TREATED_AS_PUBLIC["strong-for-all"])


def test_dropout_keeps_records_above_the_mean():
    found = plan("dropout")
    mean = BUDGETS.mean()
    assert (found.left_out == (mean > BUDGETS)).all()
    assert spent(found)[~found.left_out] == pytest.approx(mean, rel=1e-6)
    assert (spent(found)[found.left_out] == 0).all()
    assert (spent(found) <= BUDGETS).all()


def test_a_filtered_record_leaves_when_its_budget_is_spent():
    found = plan("filter")
    assert (spent(found) <= BUDGETS).all()
    assert len(set(found.runs)) == 1
    small, large = (set(found.rounds[level == BUDGETS].tolist()) for level in (0.1, 5.0))
    assert max(small) < 15
    assert 15 in large
    assert found.left_out[(BUDGETS == 0.1) & (CLIENT_OF == 2)].all()  # one round costs too much


def test_a_budget_too_small_for_any_noise_is_told():
    budgets = np.where(np.arange(len(BUDGETS)) == 7, 1e-4, BUDGETS)
    found = plan(budgets=budgets)
    assert np.flatnonzero(found.left_out).tolist() == [7]
    first, *_ = refused_by(plan, "strong-for-all", budgets=budgets)
    assert first.pointer == "/privacy/epsilon_min"


# -- the individual filter: how long a record stays follows from its own spending, which it keeps --


RUN = plan().runs[0]


def test_a_record_stays_for_the_rounds_that_its_budget_has_room_for():
    random = np.random.default_rng(3)
    budgets, rates = random.choice([0.001, 0.1, 1.0, 5.0], 200), random.uniform(0.01, 1, 200)
    rounds = longest_lasting(budgets, rates, RUN)
    assert 0 < (rounds == 0).mean() < (rounds < RUN.rounds).mean() < 1
    assert (RUN.epsilons(rates, rounds=rounds) <= budgets).all()
    # One round more would pass the budget, as far as any order shows.
    left = rounds < RUN.rounds
    assert (RUN.epsilons(rates, rounds=rounds + 1)[left] > budgets[left] * (1 - 1e-9)).all()


@pytest.mark.parametrize("budget", [0.3, 2.0])
def test_its_rounds_add_up_at_one_order_that_is_fixed_before(budget):
    """Adding up at the best order of each round would be another theorem."""
    rate, lasting = np.array([0.4]), longest_lasting(np.array([budget]), np.array([0.4]), RUN)
    at_orders = [
        (budget - float(added_epsilon(order, RUN.delta))) / RUN.divergence(rate, order)[0]
        for order in TWO_STAGE_ORDERS
    ]
    assert lasting.tolist() == [min(RUN.rounds, int(max(at_orders)))]
