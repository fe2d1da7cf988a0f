"""The individual filter: a record leaves in time, for good, and only by its own spending."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.privacy.accounting.accountant import added_epsilon
from fedaudit.privacy.accounting.two_stage import TwoStageRun
from fedaudit.privacy.records.record_plans import longest_lasting
from tests.privacy.renyi_filter import RecordFilter

RUN = TwoStageRun(
    client_rate=0.8,
    noise_multiplier=12.373,
    steps=50,
    rounds=15,
    delta=1e-4,
    observer="final_model",
)


def spread(records, seed):
    random = np.random.default_rng(seed)
    return random.choice([0.001, 0.1, 1.0, 5.0], records), random.uniform(0.01, 1, records)


@given(st.integers(0, 10**6), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_nobody_ever_overspends(seed, rounds):
    """Costs of any size, chosen after looking at what was spent."""
    budgets, _ = spread(50, seed)
    random = np.random.default_rng(seed)
    kept = RecordFilter(budgets, orders=random.choice([4, 32, 300], 50), delta=1e-4)
    for _ in range(rounds):
        before = kept.staying
        costs = random.exponential(0.05, 50) * (1 + kept.epsilons())
        among = random.random(50) < 0.7
        taking = kept.charge(costs, among=among)
        assert not (taking & ~(before & among)).any()
        assert not (kept.staying & ~before).any()
        assert (kept.epsilons() <= budgets).all()


def test_the_rounds_foretold_are_the_rounds_admitted():
    budgets, rates = spread(200, 3)
    orders, rounds = longest_lasting(budgets, rates, RUN)
    kept = RecordFilter(budgets, orders=orders, delta=RUN.delta)
    costs = np.array(
        [RUN.divergence(rates[i : i + 1], int(order))[0] for i, order in enumerate(orders)]
    )
    admitted = np.zeros(200, dtype=int)
    for _ in range(RUN.rounds):
        admitted += kept.charge(costs)
    assert (admitted == rounds).all()
    assert 0 < (rounds == 0).mean() < (rounds < RUN.rounds).mean() < 1
    spends = RUN.epsilons(rates, rounds=rounds)
    assert (spends <= budgets).all()
    # One round more would pass the budget, as far as any order shows.
    left = rounds < RUN.rounds
    assert (RUN.epsilons(rates, rounds=rounds + 1)[left] > budgets[left] * (1 - 1e-9)).all()


def test_a_record_leaves_for_good():
    kept = RecordFilter([1.0, 1.0], orders=[32, 32], delta=1e-4)
    limit = 1.0 - added_epsilon(32, 1e-4)
    assert kept.charge([0.6 * limit, 0.4 * limit]).tolist() == [True, True]
    assert kept.charge(0.5 * limit).tolist() == [False, True]
    assert kept.charge(0.0).tolist() == [False, True]
    assert kept.staying.tolist() == [False, True]


def test_who_is_not_asked_neither_pays_nor_leaves():
    kept = RecordFilter([1.0, 1.0], orders=[32, 32], delta=1e-4)
    assert kept.charge(100.0, among=np.array([False, True])).tolist() == [False, False]
    assert kept.staying.tolist() == [True, False]
    assert kept.epsilons().tolist() == [0.0, 0.0]


def test_a_budget_below_what_its_order_can_show_never_enters():
    kept = RecordFilter([1e-4], orders=[32], delta=1e-4)
    assert not kept.staying.any()
    assert not kept.charge(0.0).any()


@pytest.mark.parametrize("cost", [-0.1, np.nan])
def test_costs_are_not_negative(cost):
    with pytest.raises(ValueError, match="costs"):
        RecordFilter([1.0], orders=[32], delta=1e-4).charge(cost)
