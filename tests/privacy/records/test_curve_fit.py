"""Simulation-CurveFitting: a good fit by R^2 that overspends small budgets."""

import pytest

from fedaudit.privacy.accounting.two_stage import calibrated_run
from fedaudit.privacy.records.record_plans import (
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


@pytest.mark.parametrize("name", SETTINGS)
def test_small_budgets_overspend_where_the_exact_inverse_does_not(name):
    client_rate, delta, epsilon_max, spent = SETTINGS[name]
    run = calibrated_run(epsilon_max, client_rate=client_rate, steps=50, rounds=15, delta=delta)
    assert fit_curve(run).r_squared > 0.999
    fitted = curve_fit_rates([0.1], run)
    assert fitted.spends == pytest.approx(spent, abs=6e-4)
    assert fitted.overspent.all()
    exact = exact_rates([0.1], run)
    assert not exact.overspent.any()
    assert exact.spends > 0.0999


def test_rates_are_clamped():
    run = calibrated_run(10.0, client_rate=0.8, steps=50, rounds=15, delta=1e-4)
    curve = fit_curve(run)
    assert curve.rates(curve.epsilons([0.2, 0.7, 1.5])) == pytest.approx([0.2, 0.7, 1.0])
    # This fit crosses zero at a positive rate, so the smallest budget of all is sampled.
    assert curve_fit_rates([1e-9], run).overspent.all()
    above_zero = FittedCurve(a=1.0, b=0.0, c=0.5, r_squared=1.0)
    assert above_zero.rates([0.1, 0.5, 1.4]).tolist() == [0.0, 0.0, 0.0]
