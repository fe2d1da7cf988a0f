"""Bodies that the documentation offers to send: each can be sent as it is."""

from typing import Any

from pydantic import BaseModel

from api.schemas.experiments import AttacksRequest
from api.schemas.federations import (
    BudgetSetting,
    ErasureRequest,
    ProposalRequest,
    SimulationSetting,
)
from api.schemas.people import KeyRequest, SignOffRequest
from api.schemas.reports import GatesRequest, PolicyRequest
from api.schemas.webhooks import WebhookChange, WebhookRequest
from fedaudit.spec.audits.audit_spec import AuditSpec
from fedaudit.spec.declared_ledgers import LedgerTerms, ReservationRequest, RoundsRequest
from fedaudit.spec.disclosure.disclosure_policy import DisclosurePolicy
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.registration import Registration
from fedaudit.spec.sweeps.sweep_spec import SweepSpec

_EXPERIMENT: dict[str, Any] = {
    "spec_version": 1,
    "name": "two-groups",
    "seed": 1,
    "federation": {
        "source": "synthetic-groups",
        "clients_per_group": [80, 20],
        "rows_per_client": 10,
        "validation_fraction": 0.5,
    },
    "model": {"kind": "linear"},
    "training": {"loss": "rmse", "hypotheses": 2, "rounds": 20, "cohort": {"clients": 10}},
    "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3, "radius": 0.5, "clip": 0.25},
    "fairness": {
        "sensitive": ["group"],
        "favourable": [
            {"group": {"group": "g1"}, "op": "ge", "value": 0},
            {"group": {"group": "g2"}, "op": "le", "value": 15},
        ],
    },
    "gates": [{"figure": "equalized_odds_difference", "op": "le", "value": 0.2}],
}
_GATES: list[dict[str, Any]] = [
    {"figure": "epsilon_max", "op": "le", "value": 10},
    {"figure": "equalized_odds_difference", "op": "le", "value": 0.1},
]

_ROUND_EVENT = {"kind": "poisson-gaussian", "rate": 0.05, "noise_multiplier": 1.1}

UPLOAD: dict[str, Any] = {
    "name": "incomes",
    "federation": {"source": "table", "client_key": "town", "target": "income"},
    "fairness": {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 30000}},
}
"""A registration that comes with its file."""

_EXAMPLES: dict[type[BaseModel], dict[str, Any]] = {
    ErasureRequest: {"reference": "request 2026-117"},
    ExperimentSpec: _EXPERIMENT,
    SweepSpec: {
        "name": "noise-and-hypotheses",
        "base": _EXPERIMENT,
        "grid": {"privacy.noise_multiplier": [1, 3], "training.hypotheses": [1, 2]},
        "repeats": 3,
    },
    Registration: {**UPLOAD, "federation": {**UPLOAD["federation"], "path": "incomes.csv"}},
    AuditSpec: {
        "name": "hiring",
        "path": "decisions.csv",
        "truth": "hired",
        "prediction": "predicted",
        "sensitive": ["sex"],
        "favourable": {"op": "in", "value": ["yes"]},
    },
    BudgetSetting: {
        "book": "release",
        "figure": "epsilon",
        "total": 10,
        "delta": 1e-5,
        "adjacency": "add-or-remove-one",
        "observer": "final_model",
    },
    SimulationSetting: {"simulation": "forbidden"},
    DisclosurePolicy: {"minimum_group_size": 30, "minimum_group_clients": 3},
    GatesRequest: {"experiment_id": "0199c0de-0000-7000-8000-000000000000", "gates": _GATES},
    PolicyRequest: {"description": "Before a model leaves.", "gates": _GATES},
    ProposalRequest: {"path": "incomes.csv", "target": "income"},
    AttacksRequest: {
        "attacks": [{"kind": "membership"}, {"kind": "canaries", "unit": "client", "count": 1000}]
    },
    SignOffRequest: {"decision": "approved", "note": "Read with the data owner."},
    WebhookRequest: {
        "url": "https://hooks.example.org/fedaudit",
        "events": ["experiment.finished", "gate.failed"],
        "description": "The pipeline of the charges model.",
    },
    WebhookChange: {"events": ["gate.failed"], "enabled": True},
    LedgerTerms: {
        "name": "keyboard in Flower",
        "mechanism": "gaussian-central",
        "delta": 1e-6,
        "accountant": "rdp",
        "adjacency": "add-or-remove-one",
        "observer": "final_model",
        "unit": "client",
        "population": 1000,
    },
    RoundsRequest: {
        "rounds": [{"round": 1, "event": _ROUND_EVENT, "participants": ["phone-1", "phone-2"]}]
    },
    ReservationRequest: {"event": _ROUND_EVENT, "participants": ["phone-1", "phone-2"]},
    KeyRequest: {"name": "pipeline", "scopes": ["experiments:read", "experiments:write"]},
}


def example_of(model: type[BaseModel]) -> dict[str, Any] | None:
    """A body of this model; None where there is no example of it."""
    return _EXAMPLES.get(model)
