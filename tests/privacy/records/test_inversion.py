"""From budgets to rates: nobody overspends, and next to nothing is left unused."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.privacy.accounting.two_stage import (
    RecordSettings,
    TwoStageAccountant,
    TwoStageRun,
    calibrated_run,
)
from fedaudit.privacy.records.record_plans import exact_rates, sampling_grid
from fedaudit.randomness import uniforms

MNIST = calibrated_run(
    10.0, RecordSettings(client_rate=0.8, steps=50, rounds=15, delta=1e-4, epsilon_max=10.0)
)


def random_budgets(count, low, high, seed=0):
    """Half of them uniform, half of them with a uniform logarithm."""
    unit = np.random.default_rng(seed).random(count)
    even = low + (high - low) * unit
    return np.where(np.arange(count) % 2, even, low * (high / low) ** unit)


@pytest.mark.parametrize(("low", "high"), [(0.1, 10.0), (0.001, 12.0)])
def test_a_hundred_thousand_budgets(low, high):
    budgets = random_budgets(100_000, low, high)
    started = time.process_time()
    found = exact_rates(budgets, MNIST)
    seconds = time.process_time() - started
    assert (found.spends <= budgets).all()
    # Asked of the accountant again, apart from the table.
    spends = MNIST.epsilons(found.rates)
    assert (spends <= budgets).all()
    assert spends == pytest.approx(found.spends, rel=1e-11)
    reachable = (budgets >= MNIST.floor) & (budgets <= MNIST.epsilons(1.0))
    assert (found.spends[reachable] >= 0.999 * budgets[reachable]).all()
    assert ((found.rates == 0) == (budgets < MNIST.floor)).all()
    assert (found.rates[budgets > MNIST.epsilons(1.0)] == 1).all()
    assert seconds < 3  # a third of it on an idle core


@given(
    st.builds(
        TwoStageRun,
        client_rate=st.floats(0.05, 1),
        noise_multiplier=st.floats(0.3, 40),
        steps=st.integers(1, 50),
        rounds=st.integers(1, 50),
        delta=st.floats(1e-7, 1e-2),
        observer=st.sampled_from(["final_model", "server"]),
    ),
    st.integers(0, 1000),
)
@settings(max_examples=8, deadline=None)
def test_any_run_keeps_and_uses_every_budget(run, seed):
    budgets = random_budgets(200, 0.02, 20.0, seed)
    found = exact_rates(budgets, run)
    assert (run.epsilons(found.rates) <= budgets).all()
    # Where the largest order decides, epsilon grows steeply and the grid of tiny rates is coarse.
    open_ = (found.rates > 2.0**-14) & (found.rates < 1)
    assert (found.spends[open_] >= 0.999 * budgets[open_]).all()
    assert (found.spends[found.rates == 1] == run.epsilons(1.0)).all()


def test_the_accountant_of_the_ledger_agrees():
    budgets = np.array([0.1, 1.0, 5.0, 10.0])
    found = exact_rates(budgets, MNIST)
    for rate, budget in zip(found.rates, budgets, strict=True):
        accountant = TwoStageAccountant(observer="final_model").compose(MNIST.event(rate), 15)
        assert 0.999 * budget <= accountant.epsilon(1e-4) <= budget


def test_a_record_more_moves_no_other_rate():
    budgets = random_budgets(2000, 0.01, 10.0)
    everyone = exact_rates(budgets, MNIST).rates
    for without in (np.argmin(budgets), np.argmax(budgets), 1000):
        rest = np.delete(budgets, without)
        assert (exact_rates(rest, MNIST).rates == np.delete(everyone, without)).all()
    assert (exact_rates(budgets[:7], MNIST).rates == everyone[:7]).all()


def test_larger_budgets_never_get_smaller_rates():
    budgets = np.sort(random_budgets(5000, 0.001, 12.0))
    assert (np.diff(exact_rates(budgets, MNIST).rates) >= 0).all()


def test_rates_are_exact_coins():
    rates = exact_rates(random_budgets(1000, 0.002, 10.0), MNIST).rates
    assert (rates.astype(np.float32) == rates).all()
    words = rates * 2.0**32
    assert (words == np.floor(words)).all()
    # A word below rate * 2^32 is a hit and the next is none, so the chance is the rate.
    inside = rates[rates < 1]
    last = (inside * 2.0**32 - 1).astype(np.uint32)
    assert (uniforms(last) < inside).all()
    assert (uniforms(last + np.uint32(1)) > inside).all()


@given(st.floats(0, 1))
def test_the_grid_rounds_down_and_not_far(rate):
    (below,) = sampling_grid([rate])
    assert rate * (1 - 2.0**-23) - 2.0**-32 <= below <= rate
    assert sampling_grid([below]) == below


def test_no_records_and_no_budget():
    assert exact_rates([], MNIST).rates.shape == (0,)
    for bad in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="positive"):
            exact_rates([1.0, bad], MNIST)
