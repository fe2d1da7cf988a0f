"""From record budgets to sampling rates: the exact inverse beside Simulation-CurveFitting.

`python -m benchmarks.record_budgets` takes the settings of the paper's data sets, finds the noise,
and gives 100,000 budgets of each distribution to both inversions: how long it takes, who
overspends, and how much of a budget is used.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import machine
from fedaudit.privacy.accounting.two_stage import TwoStageRun, calibrated_run
from fedaudit.privacy.records.record_plans import (
    SamplingRates,
    curve_fit_rates,
    exact_rates,
    fit_curve,
)
from fedaudit.privacy.records.record_use import draw_budgets

_RECORDS = 100_000
_EPSILON_MIN = 0.1
_TARGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# Client rate, delta, largest budget; 15 rounds of 50 steps.
_SETTINGS = {
    "heart": (1.0, 1e-3, 10.0),
    "mnist": (0.8, 1e-4, 10.0),
    "mnist, config": (0.5, 1e-3, 10.0),
    "cifar": (0.8, 1e-3, 10.0),
    "snli": (0.8, 1e-3, 50.0),
}


def budgets_of_all_kinds(epsilon_max: float) -> dict[str, NDArray[np.float64]]:
    """100,000 budgets of each of the paper's distributions, and with a uniform logarithm."""
    unit = np.random.default_rng(0).random(_RECORDS)
    kinds = {"log-uniform": _EPSILON_MIN * (epsilon_max / _EPSILON_MIN) ** unit}
    for name in ("three-levels", "bounded-pareto", "bounded-mix-gauss"):
        kinds[name] = draw_budgets(
            name,
            seed=0,
            keys=np.arange(_RECORDS, dtype=np.uint64),
            epsilon_min=_EPSILON_MIN,
            epsilon_max=epsilon_max,
        )
    return kinds


def measured(
    invert: Callable[[NDArray[np.float64], TwoStageRun], SamplingRates],
    budgets: NDArray[np.float64],
    run: TwoStageRun,
    repeats: int,
) -> dict[str, float]:
    """Time and spending of an inversion; the spending is asked of the accountant again."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        found = invert(budgets, run)
        seconds.append(time.perf_counter() - started)
    spends = run.epsilons(found.rates)
    used = spends / budgets
    return {
        "seconds": median(seconds),
        "seconds_slowest": max(seconds),
        "overspent_share": float(np.mean(spends > budgets)),
        "left_out_share": float(np.mean(found.left_out)),
        "budget_used_least": float(used.min()),
        "budget_used_mean": float(used.mean()),
        "budget_used_most": float(used.max()),
        "mean_rate": float(found.rates.mean()),
    }


def setting(client_rate: float, delta: float, epsilon_max: float, repeats: int) -> dict[str, Any]:
    """Everything for one data set's settings."""
    started = time.perf_counter()
    run = calibrated_run(epsilon_max, client_rate=client_rate, steps=50, rounds=15, delta=delta)
    calibrated = time.perf_counter() - started
    targets = np.array(_TARGETS)
    curve = fit_curve(run)
    return {
        "client_rate": client_rate,
        "delta": delta,
        "epsilon_max": epsilon_max,
        "noise_multiplier": run.noise_multiplier,
        "seconds_to_calibrate": calibrated,
        "r_squared": curve.r_squared,
        "spends_by_target": {
            "target": targets.tolist(),
            "exact": exact_rates(targets, run).spends.tolist(),
            "curve-fit": curve_fit_rates(targets, run).spends.tolist(),
        },
        "budgets": {
            kind: {
                "exact": measured(exact_rates, budgets, run, repeats),
                "curve-fit": measured(curve_fit_rates, budgets, run, repeats),
            }
            for kind, budgets in budgets_of_all_kinds(epsilon_max).items()
        },
    }


def main() -> None:
    """Measure, print a table and write everything as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/record_budgets.json"))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    results = {
        name: setting(*numbers, repeats=options.repeats) for name, numbers in _SETTINGS.items()
    }
    for name, result in results.items():
        print(f"{name}: sigma {result['noise_multiplier']:.3f}, R^2 {result['r_squared']:.5f}")
        for kind, both in result["budgets"].items():
            for inversion, figures in both.items():
                print(
                    f"  {kind:18} {inversion:10} {figures['seconds']:6.3f} s  overspent "
                    f"{figures['overspent_share']:7.2%}  used {figures['budget_used_least']:.4f}"
                    f" .. {figures['budget_used_most']:.4f}"
                )
    facts = {"machine": machine(), "records": _RECORDS, "repeats": options.repeats}
    options.out.write_text(json.dumps(facts | {"settings": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
