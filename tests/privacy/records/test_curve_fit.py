"""Simulation-CurveFitting: a good fit by R^2 that overspends small budgets."""

import numpy as np
import pytest

from fedaudit.privacy.accounting.two_stage import RecordSettings, calibrated_run
from fedaudit.privacy.records.record_plans import (
    FIT_RATES,
    FittedCurve,
    curve_fit_rates,
    exact_rates,
    fit_curve,
)

# client rate, delta, largest budget; what a budget of 0.1 spends by the fit
SETTINGS = {
    "heart": (1.0, 1e-3, 10.0, 0.121),
    "mnist": (0.8, 1e-4, 10.0, 0.127),
    "mnist, config": (0.5, 1e-3, 10.0, 0.110),
    "cifar": (0.8, 1e-3, 10.0, 0.116),
    "snli": (0.8, 1e-3, 50.0, 0.178),
}


def run_within(epsilon_max, **given):
    settings = RecordSettings(steps=50, rounds=15, epsilon_max=epsilon_max, **given)
    return calibrated_run(epsilon_max, settings)


@pytest.mark.parametrize("name", SETTINGS)
def test_small_budgets_overspend_where_the_exact_inverse_does_not(name):
    client_rate, delta, epsilon_max, spent = SETTINGS[name]
    run = run_within(epsilon_max, client_rate=client_rate, delta=delta)
    curve, spends = fit_curve(run), run.epsilons(FIT_RATES)
    residual = spends - (np.exp(curve.a * FIT_RATES + curve.b) + curve.c)
    assert np.square(residual).sum() < 0.001 * np.square(spends - spends.mean()).sum()  # R^2
    fitted = curve_fit_rates([0.1], run)
    assert fitted.spends == pytest.approx(spent, abs=6e-4)
    assert fitted.spends > 0.1
    exact = exact_rates([0.1], run)
    assert 0.0999 < exact.spends <= 0.1


def test_rates_are_clamped():
    run = run_within(10.0, client_rate=0.8, delta=1e-4)
    curve = fit_curve(run)
    fitted = np.exp(curve.a * np.array([0.2, 0.7, 1.5]) + curve.b) + curve.c
    assert curve.rates(fitted) == pytest.approx([0.2, 0.7, 1.0])
    # This fit crosses zero at a positive rate, so the smallest budget of all is sampled.
    assert curve_fit_rates([1e-9], run).spends > 1e-9
    above_zero = FittedCurve(a=1.0, b=0.0, c=0.5)
    assert above_zero.rates([0.1, 0.5, 1.4]).tolist() == [0.0, 0.0, 0.0]
