"""Simulation-CurveFitting, the authors' way from a budget to a rate (rPDP-FL, CCS 2024).

The spending is simulated on a grid of rates, exp(a q + b) + c is fitted to it by least squares,
and the fit is inverted. The fit is good where epsilon is large and too low or too high, by much,
where it is small, though R^2 exceeds 0.999: records with small budgets overspend. It is kept to
reproduce the paper; `exact_rates` is what keeps budgets.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedaudit.privacy.accounting.accountants.two_stage import TwoStageRun
from fedaudit.privacy.records.record_sampling_rates import SamplingRates, sampling_grid

FIT_RATES: NDArray[np.float64] = np.unique(
    np.concatenate([np.arange(1, 100) / 100, np.arange(1, 100) / 1000, [1.0]])
)
"""The authors' grid: 0.01 to 0.99, 0.001 to 0.099, and 1."""


@dataclass(frozen=True)
class FittedCurve:
    """epsilon is about exp(a q + b) + c."""

    a: float
    b: float
    c: float
    r_squared: float

    def epsilons(self, rates: ArrayLike) -> NDArray[np.float64]:
        """What records of these rates spend according to the fit."""
        fitted: NDArray[np.float64] = np.exp(self.a * np.asarray(rates) + self.b) + self.c
        return fitted

    def rates(self, budgets: ArrayLike) -> NDArray[np.float64]:
        """The rates at which these budgets are spent according to the fit, clamped to [0, 1]."""
        above = np.asarray(budgets, dtype=np.float64) - self.c
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = (np.log(above) - self.b) / self.a
        return np.clip(np.where(above > 0, rates, 0.0), 0.0, 1.0)


def fit_curve(run: TwoStageRun) -> FittedCurve:
    """Least squares on the authors' grid."""
    from scipy.optimize import curve_fit

    spends = run.epsilons(FIT_RATES)

    def curve(rates: NDArray[np.float64], a: float, b: float, c: float) -> NDArray[np.float64]:
        grown: NDArray[np.float64] = np.exp(a * rates + b) + c
        return grown

    start = (1.0, np.log(max(float(spends[-1]), 1e-12)) - 1.0, 0.0)
    (a, b, c), _ = curve_fit(curve, FIT_RATES, spends, p0=start, maxfev=20_000)
    residual = spends - curve(FIT_RATES, a, b, c)
    spread = spends - spends.mean()
    r_squared = 1 - float(residual @ residual) / float(spread @ spread)
    return FittedCurve(float(a), float(b), float(c), r_squared)


def curve_fit_rates(budgets: ArrayLike, run: TwoStageRun) -> SamplingRates:
    """Rates by the fit, with what they actually spend: see `SamplingRates.overspent`."""
    wanted = np.asarray(budgets, dtype=np.float64)
    rates = sampling_grid(fit_curve(run).rates(wanted))
    return SamplingRates(rates, run.epsilons(rates), wanted)
