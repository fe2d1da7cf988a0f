"""What an experiment would cost, before it runs."""

from fedaudit.privacy.mechanisms.registry import mechanism_of
from fedaudit.privacy.planning.cost_projection import (
    NO_EPSILON,
    NO_LEAKAGE,
    NO_MECHANISM,
    NO_NOISE,
    Projection,
)
from fedaudit.privacy.planning.plan import SpendingPlan
from fedaudit.spec.experiment import ExperimentSpec

__all__ = [
    "NO_EPSILON",
    "NO_LEAKAGE",
    "NO_MECHANISM",
    "NO_NOISE",
    "Projection",
    "project_cost",
]


def project_cost(
    spec: ExperimentSpec, *, n: int, training_clients: int, plan: SpendingPlan | None = None
) -> Projection:
    """The cost of the spec for `n` parameters and `training_clients` clients to draw from.

    `plan`: the spending plan, if the data are available. Without it `record-personalised` is
    projected from its public numbers alone, and its baselines as far as these suffice.
    """
    return mechanism_of(spec).project_cost(n=n, training_clients=training_clients, plan=plan)
