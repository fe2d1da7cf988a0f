"""Noise for a budget: the published figures, and never too little."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedaudit.privacy.accounting.two_stage import TwoStageAccountant, calibrated_run
from fedaudit.spec.errors import InvalidInputError

PAPER = {"steps": 50, "rounds": 15}


@pytest.mark.parametrize(
    ("client_rate", "delta", "noise"), [(0.8, 1e-4, 12.373), (0.5, 1e-3, 9.729)]
)
def test_the_published_noise(client_rate, delta, noise):
    """The authors stop within 0.01 of the budget 10 on either side, about 0.012 in the noise."""
    run = calibrated_run(10.0, client_rate=client_rate, delta=delta, **PAPER)
    assert run.noise_multiplier == pytest.approx(noise, abs=0.012)
    spent = TwoStageAccountant(observer="final_model").compose(run.event(1.0), 15).epsilon(delta)
    assert 10 - 1e-6 < spent <= 10


@given(
    epsilon=st.floats(0.05, 50),
    rate=st.floats(1e-3, 1),
    client_rate=st.floats(0.05, 1),
    observer=st.sampled_from(["final_model", "server"]),
)
@settings(max_examples=25, deadline=None)
def test_the_budget_is_met_and_never_passed(epsilon, rate, client_rate, observer):
    run = calibrated_run(
        epsilon,
        record_rate=rate,
        client_rate=client_rate,
        delta=1e-4,
        observer=observer,
        **PAPER,
    )
    assert epsilon * (1 - 1e-6) <= run.epsilons(rate) <= epsilon
    assert (run.epsilons([rate / 2, rate / 10]) <= epsilon).all()


def test_against_the_server_more_noise_is_needed():
    noises = [
        calibrated_run(10.0, client_rate=0.5, delta=1e-3, observer=who, **PAPER).noise_multiplier
        for who in ("final_model", "server")
    ]
    assert noises[0] < noises[1]


def test_a_budget_below_the_floor_needs_more_than_noise():
    with pytest.raises(InvalidInputError) as refused:
        calibrated_run(
            0.001, client_rate=0.8, delta=1e-5, pointer="/privacy/uniform_epsilon", **PAPER
        )
    (error,) = refused.value.errors
    assert error.pointer == "/privacy/uniform_epsilon"
    assert "0.003637" in error.message
    assert "raise the budget or delta" in error.message
