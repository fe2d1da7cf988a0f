"""A spec of each mechanism, by a name of its own."""

import numpy as np

from fedaudit.privacy.records.record_use import RecordPlan, record_use
from fedaudit.spec.experiment import ExperimentSpec
from tests.privacy.specs_of_privacy import a_spec, central, laplace, local, records_spec

CLIENTS = ("ada", "ben", "cy")


def records_of(spec: ExperimentSpec) -> RecordPlan | None:
    """Two clients of ten records each; None of other mechanisms."""
    if spec.privacy.mechanism != "record-personalised":
        return None
    return record_use(spec, budgets=np.full(20, 5.0), client_of=np.repeat([0, 1], 10), clients=2)


SPECS: dict[str, ExperimentSpec] = {
    "none": a_spec({"mechanism": "none"}),
    "laplace-adaptive": laplace(),
    "laplace-fixed": laplace(radius=1.0, clip=0.4),
    "laplace-budget": laplace(radius=1.0, client_budget=4.0),
    "central": central(cohort={"clients": 7}, hypotheses=2),
    "distance": a_spec(
        {"mechanism": "gaussian-distance", "noise_multiplier": 4, "clip": 1.0}, hypotheses=1
    ),
    "local": local(),
    "local-budget": local(epsilon_budget=4.0),
    "records": records_spec(),
    "records-filter": records_spec("filter"),
    "records-free": records_spec("privacy-free"),
    "records-uniform": records_spec("uniform"),
}
