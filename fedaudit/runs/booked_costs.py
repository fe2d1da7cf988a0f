"""What a run may cost at most, in the form that costs of several runs are composed from."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.unit_key import unit_key
from fedaudit.runs.run import Run
from fedaudit.sweeps.sweep_costs import CostFigure


@dataclass(frozen=True, eq=False, kw_only=True)
class RunCost:
    """One figure of one run; see `sweep_costs.BookedCost`."""

    experiment_id: str
    federation_id: str
    """The fingerprint of its data."""
    figure: CostFigure
    observer: str = ""
    terms: str
    unit: str
    unit_key: str
    delta: float = 0.0
    amount: float
    curve: NDArray[np.float64] | None = None
    enlarged: bool = False


def booked_costs(run: Run) -> list[RunCost]:
    """The worst case of every round that the spec plans; nothing for training without noise."""
    mechanism, context = mechanism_of(run.spec), run.ledger.ledger_context
    unit, plan = mechanism.facts.unit, context.plan
    whose = unit_key(run.spec, unit)
    if plan is not None:
        return [
            RunCost(
                experiment_id=run.experiment_id,
                federation_id=run.federation.fingerprint,
                figure="epsilon",
                observer=observer,
                terms=plan.adjacency,
                unit=unit,
                unit_key=whose,
                delta=plan.delta,
                amount=plan.largest(observer, plan.steps),
                curve=plan.curve(observer, plan.steps),
            )
            for observer in plan.observers
        ]
    inputs = context.inputs
    projection = mechanism.project_cost(
        n=inputs.n, training_clients=run.training_clients, plan=None, layers=inputs.component_sizes
    )
    amounts: dict[CostFigure, float | None] = {
        "leakage": projection.leakage_worst_case,
        "log_ratio": projection.log_ratio_worst_case,
    }
    return [
        RunCost(
            experiment_id=run.experiment_id,
            federation_id=run.federation.fingerprint,
            figure=figure,
            terms=f"radius {inputs.radius}, clip {inputs.clip}",
            unit=unit,
            unit_key=whose,
            amount=amount,
        )
        for figure, amount in amounts.items()
        if amount is not None
    ]
