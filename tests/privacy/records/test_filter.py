"""The individual filter: how long a record stays follows from its own spending, which it keeps."""

import numpy as np
import pytest

from fedaudit.privacy.accounting.accountant import added_epsilon
from fedaudit.privacy.accounting.two_stage import TWO_STAGE_ORDERS, TwoStageRun
from fedaudit.privacy.records.record_plans import longest_lasting

RUN = TwoStageRun(
    client_rate=0.8,
    noise_multiplier=12.373,
    steps=50,
    rounds=15,
    delta=1e-4,
    observer="final_model",
)


def test_a_record_stays_for_the_rounds_that_its_budget_has_room_for() -> None:
    random = np.random.default_rng(3)
    budgets, rates = random.choice([0.001, 0.1, 1.0, 5.0], 200), random.uniform(0.01, 1, 200)
    rounds = longest_lasting(budgets, rates, RUN)
    assert 0 < (rounds == 0).mean() < (rounds < RUN.rounds).mean() < 1
    assert (RUN.epsilons(rates, rounds=rounds) <= budgets).all()
    # One round more would pass the budget, as far as any order shows.
    left = rounds < RUN.rounds
    assert (RUN.epsilons(rates, rounds=rounds + 1)[left] > budgets[left] * (1 - 1e-9)).all()


@pytest.mark.parametrize("budget", [0.3, 2.0])
def test_its_rounds_add_up_at_one_order_that_is_fixed_before(budget: float) -> None:
    """Adding up at the best order of each round would be another theorem."""
    rate, lasting = np.array([0.4]), longest_lasting(np.array([budget]), np.array([0.4]), RUN)
    at_orders = [
        (budget - float(added_epsilon(order, RUN.delta))) / RUN.divergence(rate, order)[0]
        for order in TWO_STAGE_ORDERS
    ]
    assert lasting.tolist() == [min(RUN.rounds, int(max(at_orders)))]
