"""How a federation uses its records under rPDP-FL.

A plan states how much noise each client adds in training, how often each record is sampled and for
how many rounds, and what each record then spends. The paper's baselines are plans too
(`fedaudit.privacy.records.record_baselines`).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.accounting.accountants.two_stage import TwoStageRun
from fedaudit.privacy.accounting.calibration import calibrated_run
from fedaudit.privacy.accounting.privacy_events import Observer
from fedaudit.privacy.records.curve_fit import curve_fit_rates
from fedaudit.privacy.records.record_sampling_rates import SamplingRates, exact_rates

Inversion = Literal["exact", "curve-fit"]


@dataclass(frozen=True, kw_only=True)
class RecordSettings:
    """The public numbers of a run."""

    client_rate: float
    steps: int
    rounds: int
    delta: float
    epsilon_max: float
    observer: Observer = "final_model"
    """Against whom budgets are kept; figures against the other observer follow from the plan's
    runs."""


@dataclass(frozen=True, kw_only=True)
class RecordPlan:
    """Arrays [records], client after client, except for `runs`: one for each client."""

    runs: tuple[TwoStageRun, ...] | None
    """The noise of each client and the spending it implies; None where there is no noise."""
    rates: NDArray[np.float64]
    """The chance of each record in each step; 0 where it is left out."""
    rounds: NDArray[np.int64]
    """For how many rounds the record stays, whether or not its client takes part in them."""
    spends: NDArray[np.float64]
    """The epsilon of each record against the settings' observer; infinite without noise."""
    budgets: NDArray[np.float64]

    @property
    def left_out(self) -> NDArray[np.bool_]:
        """Records that are never sampled."""
        never: NDArray[np.bool_] = (self.rates == 0) | (self.rounds == 0)
        return never

    @property
    def overspent(self) -> NDArray[np.bool_]:
        """Records that spend more than their budget."""
        return np.greater(self.spends, self.budgets)


def personalised_plan(
    budgets: NDArray[np.float64],
    settings: RecordSettings,
    *,
    clients: int,
    inversion: Inversion = "exact",
) -> RecordPlan:
    """rPDP-FL: every record is sampled as often as its budget allows.

    All clients add the same noise: as much as a record of rate 1 needs to stay within
    `epsilon_max`. Raises InvalidInputError where no noise is enough.
    """
    run = run_within(settings.epsilon_max, settings)
    invert = {"exact": exact_rates, "curve-fit": curve_fit_rates}[inversion]
    found: SamplingRates = invert(budgets, run)
    return RecordPlan(
        runs=(run,) * clients,
        rates=found.rates,
        rounds=np.full(len(found.rates), run.rounds, dtype=np.int64),
        spends=found.spends,
        budgets=found.budgets,
    )


def run_within(
    epsilon: float,
    settings: RecordSettings,
    *,
    record_rate: float = 1.0,
    pointer: str = "/privacy/epsilon_max",
) -> TwoStageRun:
    """The run with the least noise in which a record of `record_rate` spends at most `epsilon`."""
    return calibrated_run(
        epsilon,
        record_rate=record_rate,
        client_rate=settings.client_rate,
        steps=settings.steps,
        rounds=settings.rounds,
        delta=settings.delta,
        observer=settings.observer,
        pointer=pointer,
    )
