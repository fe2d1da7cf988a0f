"""Two-stage sampling: observers, ways to get it wrong, and numbers at their ends.

Noise for a budget: the published figures, and never too little.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, logsumexp

from fedaudit.privacy.accounting.accountant import added_epsilon
from fedaudit.privacy.accounting.privacy_events import Gaussian, PoissonSampled, TwoStage
from fedaudit.privacy.accounting.two_stage import (
    TWO_STAGE_ORDERS,
    TwoStageRun,
    calibrated_run,
    log_moments,
    round_curve,
)
from tests.privacy.accounting.spending import by_orders
from tests.privacy.renyi_by_hand import older_epsilon, own_divergence
from tests.refusals import refused_by

MNIST = TwoStageRun(
    client_rate=0.8,
    noise_multiplier=12.373,
    steps=50,
    rounds=15,
    delta=1e-4,
    observer="final_model",
)
runs = st.builds(
    TwoStageRun,
    client_rate=st.floats(0.01, 1),
    noise_multiplier=st.floats(0.3, 50),
    steps=st.integers(1, 50),
    rounds=st.integers(1, 50),
    delta=st.floats(1e-8, 1e-2),
    observer=st.sampled_from(["final_model", "server"]),
)


def spent(event, rounds, observer, delta):
    return by_orders(event, rounds, observer=observer, delta=delta)


def test_the_server_sees_more_than_the_final_model_shows():
    event = TwoStage(0.5, 1.0, 9.729, 50)
    assert spent(event, 15, "final_model", 1e-3) == pytest.approx(10.0, abs=0.05)
    assert spent(event, 15, "server", 1e-3) == pytest.approx(13.4, abs=0.05)
    assert spent(event, 8, "server", 1e-3) == pytest.approx(8.84, abs=0.005)


def test_one_coin_for_all_steps_of_a_round():
    """Two ways to 'amplify' that understate what is spent, beside the one that holds."""
    rate, sigma, steps, rounds, delta = 0.1, 1.0, 5, 100, 1e-5
    event = TwoStage(rate, rate, sigma, steps)
    right = spent(event, rounds, "final_model", delta)
    assert right == pytest.approx(6.63, abs=0.005)
    divergences = rounds * round_curve(event, TWO_STAGE_ORDERS, observer="final_model")
    older = older_epsilon(divergences, TWO_STAGE_ORDERS, delta)
    assert older == pytest.approx(7.59, abs=0.005)

    product = PoissonSampled(rate * rate, Gaussian(sigma))
    found = by_orders(product, steps * rounds, orders=TWO_STAGE_ORDERS, delta=delta)
    assert found == pytest.approx(1.66, abs=0.005)
    single = [steps * rounds * own_divergence(sigma, rate**2, order) for order in TWO_STAGE_ORDERS]
    assert older_epsilon(single, TWO_STAGE_ORDERS, delta) == pytest.approx(2.09, abs=0.005)

    nested = np.array([rounds * _nested(rate, sigma, steps, order) for order in TWO_STAGE_ORDERS])
    assert older_epsilon(nested, TWO_STAGE_ORDERS, delta) == pytest.approx(2.84, abs=0.005)
    tight = (nested + added_epsilon(TWO_STAGE_ORDERS, delta)).min()
    assert tight == pytest.approx(2.30, abs=0.005)


def _nested(rate, sigma, steps, order):
    """Equation (2) of the slides around the steps: as if nobody else held records there."""
    inner = np.array(
        [0.0, 0.0, *(own_divergence(sigma, rate, part) for part in range(2, order + 1))]
    )
    part = np.arange(order + 1)
    choose = gammaln(order + 1) - gammaln(part + 1) - gammaln(order - part + 1)
    weight = choose + part * math.log(rate) + (order - part) * math.log1p(-rate)
    return logsumexp(weight + (part - 1) * steps * inner) / (order - 1)


@given(runs, st.lists(st.floats(0, 1), min_size=1, max_size=20))
@settings(max_examples=15, deadline=None)
def test_many_rates_at_once_are_the_accountants_one_by_one(run, rates):
    together = run.epsilons(rates)
    for rate, epsilon in zip(rates, together, strict=True):
        if rate == 0:
            assert epsilon == 0
            continue
        single = spent(run.event(rate), run.rounds, run.observer, run.delta)
        assert epsilon == pytest.approx(single, rel=1e-12, abs=1e-15)


@given(runs)
@settings(max_examples=20, deadline=None)
def test_spending_grows_with_the_rate_and_the_rounds(run):
    rates = np.concatenate([np.geomspace(1e-9, 0.1, 40), np.linspace(0.11, 1, 40)])
    epsilons = run.epsilons(rates)
    assert (np.diff(epsilons) >= -1e-12 * epsilons[1:]).all()
    fewer = run.epsilons(rates, rounds=max(1, run.rounds // 2))
    assert (fewer <= epsilons * (1 + 1e-12)).all()


@given(runs)
@settings(max_examples=20, deadline=None)
def test_the_final_model_shows_no_more_than_the_server_sees(run):
    rates = np.linspace(0, 1, 7)
    shown, seen = (replace(run, observer=observer) for observer in ("final_model", "server"))
    assert (shown.epsilons(rates) <= seen.epsilons(rates) * (1 + 1e-12)).all()


def test_rounds_may_differ_from_record_to_record():
    rates = np.array([0.1, 0.1, 0.5, 0.0])
    rounds = np.array([3, 15, 0, 7])
    expected = [spent(MNIST.event(0.1), count, "final_model", 1e-4) for count in (3, 15)]
    assert MNIST.epsilons(rates, rounds=rounds) == pytest.approx([*expected, 0.0, 0.0], rel=1e-12)


@pytest.mark.parametrize("order", [2, 7, 994])
def test_moments_at_the_ends_of_the_rates(order):
    sigma = 0.05  # exponents up to 2e8: exp would overflow
    none, tiny, most, every = log_moments(
        np.array([0.0, 1e-300, 1 - 1e-16, 1.0]), order=order, noise_multiplier=sigma
    )
    assert none == 0
    assert 0 <= tiny < every
    assert every == order * (order - 1) / (2 * sigma**2)
    assert most == pytest.approx(every, rel=1e-9)


def test_a_tiny_divergence_keeps_its_digits():
    """For small q, log A is C(alpha, 2) q^2 (exp(1 / sigma^2) - 1); 1 + that would be 1."""
    moment = log_moments(np.array([1e-12]), order=2, noise_multiplier=10.0)[0]
    assert moment == pytest.approx(1e-24 * math.expm1(0.01), rel=1e-9)


@pytest.mark.parametrize("client_rate", [1e-6, 0.3, 1.0])
def test_a_round_between_nothing_and_no_overflow(client_rate):
    def divergence(rate, sigma):
        event = TwoStage(client_rate, rate, sigma, 1000)
        return round_curve(event, (3,), observer="final_model")[0]

    small = 1000 * own_divergence(100.0, 1e-6, 3)
    assert divergence(1e-6, 100.0) == pytest.approx(client_rate * small, rel=1e-6)
    huge = 1000 * 3 / (2 * 1e-6**2)
    assert divergence(1.0, 1e-6) == pytest.approx(huge + math.log(client_rate) / 2, rel=1e-12)


def test_the_orders_put_a_floor_under_epsilon():
    alone = {"client_rate": 1, "noise_multiplier": 1e9, "steps": 1, "rounds": 1}
    run = replace(MNIST, **alone, delta=1e-5, observer="server")
    assert run.floor == pytest.approx(0.0036, abs=5e-5)
    assert run.epsilons(1.0) == pytest.approx(run.floor, rel=1e-9)
    assert run.floor == added_epsilon(TWO_STAGE_ORDERS, 1e-5).min()


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("client_rate", [0.0]),
        ("noise_multiplier", [0.0]),
        ("steps", [0]),
        ("rounds", [0]),
        ("delta", [-1e-5, 0.0, 1.0]),
    ],
)
def test_a_run_names_the_number_out_of_range(field, values):
    for value in values:
        with pytest.raises(ValueError, match=field):
            replace(MNIST, **{field: value})
    for rate in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="rates"):
            MNIST.epsilons([rate])


@pytest.mark.parametrize(
    ("client_rate", "delta", "noise"), [(0.8, 1e-4, 12.373), (0.5, 1e-3, 9.729)]
)
def test_the_published_noise(client_rate, delta, noise):
    """The authors stop within 0.01 of the budget 10 on either side, about 0.012 in the noise."""
    run = calibrated_run(10.0, replace(MNIST, client_rate=client_rate, delta=delta))
    assert run.noise_multiplier == pytest.approx(noise, abs=0.012)
    assert 10 - 1e-6 < spent(run.event(1.0), 15, "final_model", delta) <= 10


@given(epsilon=st.floats(0.05, 50), rate=st.floats(1e-3, 1), client_rate=st.floats(0.05, 1))
@settings(max_examples=12, deadline=None)
def test_the_budget_is_met_and_never_passed(epsilon, rate, client_rate):
    run = calibrated_run(epsilon, replace(MNIST, client_rate=client_rate), record_rate=rate)
    assert epsilon * (1 - 1e-6) <= run.epsilons(rate) <= epsilon
    assert (run.epsilons([rate / 2, rate / 10]) <= epsilon).all()


def test_a_budget_below_the_floor_needs_more_than_noise():
    pointer = "/privacy/uniform_epsilon"
    (error,) = refused_by(calibrated_run, 0.001, replace(MNIST, delta=1e-5), pointer=pointer)
    assert error.pointer == pointer
    assert "0.003637" in error.message
    assert "raise the budget or delta" in error.message
