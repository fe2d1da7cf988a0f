"""An audit as the experiment whose figures it has: one that held every row of the table out."""

from typing import Any

from fedaudit.spec.audits.audit_spec import AuditSpec
from fedaudit.spec.experiment import ExperimentSpec


def measuring_spec(audit: AuditSpec) -> ExperimentSpec:
    """The spec that the code for groups, favourable outcomes and disclosure reads.

    Of it only columns, fairness and seed mean anything: nothing is trained by it, and what it says
    of model, training and privacy is never shown.
    """
    clients: dict[str, Any] = {"client_key": audit.client_key}
    if audit.client_key is None:
        clients = {"partition": {"method": "iid", "clients": 2}}
    return ExperimentSpec.model_validate(
        {
            "name": audit.name,
            "seed": audit.seed,
            "federation": {
                "source": "table",
                "path": audit.path,
                "id": audit.id,
                "target": audit.truth,
                "features": [audit.predicted_by],
                "labels": audit.labels,
                **clients,
            },
            "model": {"kind": "logistic"},
            "training": {
                "loss": "cross-entropy",
                "hypotheses": 1,
                "rounds": 1,
                "cohort": {"sampling": "fixed", "clients": 1},
                "local": {"epochs": 1, "step_size": 0.1},
            },
            "privacy": {"mechanism": "none"},
            "fairness": audit.fairness,
            "gates": audit.gates,
        }
    )
