"""A spec of each mechanism, by a name of its own."""

from typing import Any

import numpy as np

from fedaudit.privacy.records.record_use import RecordPlan, record_use
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.parse import parse_spec
from tests.privacy.specs_of_privacy import a_spec

CLIENTS = ("ada", "ben", "cy")
GAUSSIAN = {"noise_multiplier": 4, "clip": 1.0, "delta": 1e-4}


def records_spec(**privacy: Any) -> ExperimentSpec:
    """A spec of `record-personalised`."""
    return parse_spec(
        {
            "name": "records",
            "federation": {"source": "synthetic-linear", "clients": 3},
            "model": {"kind": "linear", "intercept": False},
            "training": {
                "loss": "mse",
                "hypotheses": 1,
                "rounds": 6,
                "cohort": {"sampling": "poisson", "rate": 0.5},
                "local": {"steps": 4, "batch_size": 2, "step_size": 0.1},
            },
            "privacy": {
                "mechanism": "record-personalised",
                "budgets": {"distribution": "three-levels"},
                "delta": 1e-3,
                **privacy,
            },
        }
    )


def records_of(spec: ExperimentSpec) -> RecordPlan | None:
    """Two clients of ten records each; None of other mechanisms."""
    if spec.privacy.mechanism != "record-personalised":
        return None
    return record_use(spec, budgets=np.full(20, 5.0), client_of=np.repeat([0, 1], 10), clients=2)


SPECS: dict[str, ExperimentSpec] = {
    "none": a_spec({"mechanism": "none"}),
    "laplace-adaptive": a_spec(),
    "laplace-fixed": a_spec(
        {"mechanism": "laplace-l2", "noise_multiplier": 3, "radius": 1.0, "clip": 0.4}
    ),
    "laplace-budget": a_spec(
        {"mechanism": "laplace-l2", "noise_multiplier": 3, "radius": 1.0, "client_budget": 4.0}
    ),
    "central": a_spec({"mechanism": "gaussian-central", **GAUSSIAN}, clustering="reported"),
    "distance": a_spec(
        {"mechanism": "gaussian-distance", "noise_multiplier": 4, "clip": 1.0}, hypotheses=1
    ),
    "local": a_spec({"mechanism": "gaussian-local", **GAUSSIAN}, hypotheses=1),
    "local-budget": a_spec(
        {"mechanism": "gaussian-local", **GAUSSIAN, "epsilon_budget": 4.0}, hypotheses=1
    ),
    "records": records_spec(),
    "records-filter": records_spec(baseline="filter"),
    "records-free": records_spec(baseline="privacy-free"),
    "records-uniform": records_spec(baseline="uniform"),
}
