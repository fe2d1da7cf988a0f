"""From budgets to rates: nobody overspends, and next to nothing is left unused."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import binom, norm

from fedaudit.privacy.accounting.accountant import event_curve
from fedaudit.privacy.accounting.privacy_events import Gaussian, PoissonSampled, TwoStage
from fedaudit.privacy.accounting.two_stage import (
    MAX_NOISE,
    TwoStageRun,
    calibrated_run,
    round_curve,
)
from fedaudit.privacy.records.record_plans import curve_fit_rates, exact_rates, sampling_grid
from fedaudit.randomness import uniforms
from fedaudit.spec.errors import InvalidInputError
from tests.privacy.accounting.spending import by_orders

PAPER = TwoStageRun(
    client_rate=0.8,
    noise_multiplier=MAX_NOISE,
    steps=50,
    rounds=15,
    delta=1e-4,
    observer="final_model",
)
MNIST = calibrated_run(10.0, PAPER)


def random_budgets(count, low, high, seed=0):
    """Half of them uniform, half of them with a uniform logarithm."""
    unit = np.random.default_rng(seed).random(count)
    even = low + (high - low) * unit
    return np.where(np.arange(count) % 2, even, low * (high / low) ** unit)


@pytest.mark.parametrize(("low", "high"), [(0.1, 10.0), (0.001, 12.0)])
def test_a_hundred_thousand_budgets(low, high):
    budgets = random_budgets(100_000, low, high)
    rates = exact_rates(budgets, MNIST)
    spends = MNIST.epsilons(rates)
    assert (spends <= budgets).all()
    reachable = (budgets >= MNIST.floor) & (budgets <= MNIST.epsilons(1.0))
    assert (spends[reachable] >= 0.999 * budgets[reachable]).all()
    assert ((rates == 0) == (budgets < MNIST.floor)).all()
    assert (rates[budgets > MNIST.epsilons(1.0)] == 1).all()


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
    rates = exact_rates(budgets, run)
    spends = run.epsilons(rates)
    assert (spends <= budgets).all()
    # Where the largest order decides, epsilon grows steeply and the grid of tiny rates is coarse.
    open_ = (rates > 2.0**-14) & (rates < 1)
    assert (spends[open_] >= 0.999 * budgets[open_]).all()


def test_the_accountant_of_the_ledger_agrees():
    budgets = np.array([0.1, 1.0, 5.0, 10.0])
    for rate, budget in zip(exact_rates(budgets, MNIST), budgets, strict=True):
        assert 0.999 * budget <= by_orders(MNIST.event(rate), 15, delta=1e-4) <= budget


def test_a_record_more_moves_no_other_rate():
    budgets = random_budgets(2000, 0.01, 10.0)
    everyone = exact_rates(budgets, MNIST)
    for without in (np.argmin(budgets), np.argmax(budgets), 1000):
        rest = np.delete(budgets, without)
        assert (exact_rates(rest, MNIST) == np.delete(everyone, without)).all()
    assert (exact_rates(budgets[:7], MNIST) == everyone[:7]).all()


def test_larger_budgets_never_get_smaller_rates():
    budgets = np.sort(random_budgets(5000, 0.001, 12.0))
    assert (np.diff(exact_rates(budgets, MNIST)) >= 0).all()


def test_rates_are_exact_coins():
    rates = exact_rates(random_budgets(1000, 0.002, 10.0), MNIST)
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
    assert exact_rates([], MNIST).shape == (0,)
    for bad in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="positive"):
            exact_rates([1.0, bad], MNIST)


# -- simulation-CurveFitting: a good fit by R^2 that overspends small budgets ---------------------


# client rate, delta, largest budget; what a budget of 0.1 spends by the fit
SETTINGS = {
    "heart": (1.0, 1e-3, 10.0, 0.121),
    "mnist": (0.8, 1e-4, 10.0, 0.127),
    "mnist, config": (0.5, 1e-3, 10.0, 0.110),
    "cifar": (0.8, 1e-3, 10.0, 0.116),
    "snli": (0.8, 1e-3, 50.0, 0.178),
}


def run_within(epsilon_max, **given):
    return calibrated_run(epsilon_max, replace(PAPER, **given))


@pytest.mark.parametrize("name", SETTINGS)
def test_small_budgets_overspend_where_the_exact_inverse_does_not(name):
    client_rate, delta, epsilon_max, spent = SETTINGS[name]
    run = run_within(epsilon_max, client_rate=client_rate, delta=delta)
    budgets = epsilon_max * np.arange(1, 10) / 10  # where epsilon is large, the fit is good
    fitted = run.epsilons(curve_fit_rates(budgets, run))
    assert fitted == pytest.approx(budgets, abs=0.02 * epsilon_max)
    fitted, exact = (run.epsilons(invert([0.1], run)) for invert in (curve_fit_rates, exact_rates))
    assert fitted == pytest.approx(spent, abs=6e-4)
    assert 0.0999 < exact <= 0.1 < fitted


def test_rates_are_clamped():
    run = run_within(10.0, client_rate=0.8, delta=1e-4)
    assert curve_fit_rates([2 * run.epsilons(1.0)], run).tolist() == [1.0]
    # This fit crosses zero at a positive rate, so the smallest budget of all is sampled.
    assert run.epsilons(curve_fit_rates([1e-9], run)) > 1e-9
    with patch("scipy.optimize.curve_fit", lambda *_, **__: ((1.0, 0.0, 0.5), None)):
        assert curve_fit_rates([0.1, 0.5, 1.4], run).tolist() == [0.0, 0.0, 0.0]


# -- dividing by the number of clients that were drawn, in one dimension and without any bound ----


PLACES = np.linspace(-25, 35, 30_001)
STEP = PLACES[1] - PLACES[0]


def log_density(own, *, others, rate, sigma, place):
    """Log-density of the round's mean where somebody was drawn.

    `own`: how far the record moves its client; `others`: clients beside it; `place`: theirs.
    """
    parts = []
    for drawn in range(others + 1):
        chance = binom.logpmf(drawn, others, rate)
        mean, spread = (drawn * place + own) / (drawn + 1), sigma / np.sqrt(drawn + 1)
        parts.append(chance + np.log(rate) + norm.logpdf(PLACES, mean, spread))
        if drawn and rate < 1:
            spread = sigma / np.sqrt(drawn)
            parts.append(chance + np.log1p(-rate) + norm.logpdf(PLACES, place, spread))
    return logsumexp(parts, axis=0)


def divergence(order, *, first, second, others, rate, sigma, place):
    """The Renyi divergence of the round; `first` and `second`: how far the own client moves."""
    shared = {"others": others, "rate": rate, "sigma": sigma, "place": place}
    p, q = log_density(first, **shared), log_density(second, **shared)
    mass = np.exp(order * p + (1 - order) * q).sum() * STEP
    unsampled = (1 - rate) ** (
        others + 1
    )  # the model stays where it is, with the record or without
    return np.log(mass + unsampled) / (order - 1)


def claimed(order, *, rate, sigma):
    """The accountant's divergence of a round of one step, for a record in every batch."""
    return round_curve(TwoStage(rate, 1.0, sigma, 1), (order,), observer="final_model")[0]


@pytest.mark.parametrize("place", [0.0, 2.0, 12.0])
@pytest.mark.parametrize("others", [0, 1, 4])
@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("order", [2, 5])
def test_the_two_stage_bound_holds_for_the_mean_over_those_who_came(order, rate, others, place):
    sigma = 1.5
    setting = {"others": others, "rate": rate, "sigma": sigma, "place": place}
    bound = claimed(order, rate=rate, sigma=sigma)
    for first, second in ((1.0, 0.0), (0.0, 1.0)):
        found = divergence(order, first=first, second=second, **setting)
        assert found <= bound * (1 + 1e-9)


def test_it_is_met_by_a_client_that_is_alone_where_a_plain_sample_would_promise_less():
    """Where nobody was drawn the model does not move, which no noise hides."""
    order, rate, sigma = 5, 0.1, 1.5
    setting = {"others": 0, "rate": rate, "sigma": sigma, "place": 0.0}
    found = divergence(order, first=1.0, second=0.0, **setting)
    assert found == pytest.approx(claimed(order, rate=rate, sigma=sigma), rel=1e-9)
    [plain] = event_curve(
        PoissonSampled(rate, Gaussian(sigma)), (float(order),), "add-or-remove-one"
    )
    assert plain < found / 2


def test_a_run_that_no_curve_fits_asks_for_the_exact_inverse():
    settings = replace(PAPER, client_rate=1.0, steps=1, rounds=20, delta=3e-7)
    with pytest.raises(InvalidInputError, match="/privacy/inversion: must be exact"):
        curve_fit_rates([1.0], calibrated_run(50.0, settings))
