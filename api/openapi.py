"""The OpenAPI document: problems instead of the framework's errors, and the spec's own schema."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from api.http.problems import MEDIA_TYPE, Problem
from api.schemas.experiments import AttacksRequest, SweepTableBody
from api.schemas.federations import (
    BudgetSetting,
    ErasureRequest,
    ProposalRequest,
    SimulationSetting,
    SpecProposalRequest,
)
from api.schemas.people import KeyRequest, SignOffRequest, WebhookChange, WebhookRequest
from api.schemas.reports import GatesRequest
from fedaudit.reports.audit_report import AuditReport
from fedaudit.reports.declared.declared_report import DeclaredReport
from fedaudit.reports.readings.readings import READINGS
from fedaudit.reports.report import Report
from fedaudit.spec.audits import AuditSpec
from fedaudit.spec.declared_ledgers import LedgerTerms, ReservationRequest, RoundsRequest
from fedaudit.spec.disclosure import DisclosurePolicy
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.registration import Registration
from fedaudit.spec.sweeps import SweepSpec
from fedaudit.version import __version__

Responses = dict[int | str, dict[str, Any]]

TEXT = {"type": "string"}
BINARY = {"type": "string", "format": "binary"}
_REFERENCE = "#/components/schemas/{model}"
_WHAT = {
    401: "No API key, or one that is not in force.",
    403: "The API key lacks the scope.",
    404: "There is no such thing in the key's project.",
    409: "The request does not fit the present state.",
    410: "It was there and was removed; `reason` and `gone_at` say why and when.",
    413: "The body is too large.",
    415: "The body has another media type than declared.",
    422: "The input is not valid; `errors` says where.",
    408: "The body came too slowly.",
    429: "Streams or requests wait, or a quota is reached; `Retry-After` says when to ask again.",
    500: "The service failed.",
    503: "The database does not answer, or the storage is full or fails.",
}
_ALWAYS = (401, 403, 413, 422, 429, 500, 503)
_DESCRIPTION = """\
Privacy and fairness audits of federated learning: submit an experiment, follow it, and read its
epsilon ledger, fairness gaps and audit report. Failures are problem documents (RFC 9457).

What answers GET answers HEAD. Every answer names its request in `X-Request-ID`, by the client's own
id where it sent one of 8 to 64 letters, digits and `.`, `_`, `~`, `-`."""

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
_UPLOAD: dict[str, Any] = {
    "name": "incomes",
    "federation": {"source": "table", "client_key": "town", "target": "income"},
    "fairness": {"sensitive": ["sex"], "favourable": {"op": "ge", "value": 30000}},
}

EXAMPLES: dict[type[BaseModel], dict[str, Any]] = {
    AuditSpec: {
        "name": "hiring",
        "path": "decisions.csv",
        "truth": "hired",
        "prediction": "predicted",
        "sensitive": ["sex"],
        "favourable": {"op": "in", "value": ["yes"]},
    },
    ExperimentSpec: _EXPERIMENT,
    SweepSpec: {
        "name": "noise-and-hypotheses",
        "base": _EXPERIMENT,
        "grid": {"privacy.noise_multiplier": [1, 3], "training.hypotheses": [1, 2]},
        "repeats": 3,
    },
    Registration: {**_UPLOAD, "federation": {**_UPLOAD["federation"], "path": "incomes.csv"}},
    BudgetSetting: {
        "book": "release",
        "figure": "epsilon",
        "total": 10,
        "delta": 1e-5,
        "adjacency": "add-or-remove-one",
        "observer": "final_model",
    },
    SimulationSetting: {"simulation": "forbidden"},
    ErasureRequest: {"reference": "request 2026-117"},
    DisclosurePolicy: {"minimum_group_size": 30, "minimum_group_clients": 3},
    SpecProposalRequest: {"epsilon": 3, "delta": 1e-4},
    ProposalRequest: {"path": "incomes.csv", "target": "income"},
    GatesRequest: {"experiment_id": "0199c0de-0000-7000-8000-000000000000", "gates": _GATES},
    KeyRequest: {"name": "pipeline", "scopes": ["experiments:read", "experiments:write"]},
    SignOffRequest: {"decision": "approved", "note": "Read with the data owner."},
    AttacksRequest: {
        "attacks": [{"kind": "membership"}, {"kind": "canaries", "unit": "client", "count": 1000}]
    },
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
}
"""Every model of a body that is sent, with a body that can be sent as it is."""
_READ: tuple[type[BaseModel], ...] = (
    Problem,
    Report,
    AuditReport,
    DeclaredReport,
    SweepTableBody,
    *(one.schema for one in READINGS.values() if isinstance(one.schema, type)),
)


def problems(*statuses: int) -> Responses:
    """The declaration of these failures and of those that every call under /v1 may end in."""
    return {
        status: {
            "description": _WHAT[status],
            "content": {MEDIA_TYPE: {"schema": schema_of(Problem)}},
        }
        for status in sorted({*_ALWAYS, *statuses})
    }


def contents(description: str, forms: Mapping[str, Any], *failures: int) -> Responses:
    """The declaration of an answer by media type and schema, and of failures."""
    content = {media_type: {"schema": schema} for media_type, schema in forms.items()}
    return {**problems(*failures), 200: {"description": description, "content": content}}


def located(status: int, description: str, what: str, **more: Any) -> Responses:
    """The declaration of an answer with the address of `what` in the header `Location`."""
    header = {"Location": {"description": f"The {what}.", "schema": TEXT}}
    return {status: {"description": description, "headers": header, **more}}


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """The declaration of a body that the route reads itself, with the model's example."""
    described = {"schema": schema_of(model), "example": EXAMPLES[model]}
    return {"requestBody": {"required": True, "content": {"application/json": described}}}


def upload_body(model: type[BaseModel]) -> dict[str, Any]:
    """The declaration of a body that is a registration in JSON, or one with a file behind it."""
    described = request_body(model)
    registration = {
        **schema_of(model),
        "description": "The first part, without the file's `path`.",
        "example": _UPLOAD,
    }
    described["requestBody"]["content"]["multipart/form-data"] = {
        "schema": {
            "type": "object",
            "properties": {"registration": registration, "file": BINARY},
            "required": ["registration", "file"],
            "additionalProperties": False,
        },
        "encoding": {
            "registration": {"contentType": "application/json"},
            "file": {"contentType": "application/octet-stream"},
        },
    }
    return described


def schema_of(model: type[BaseModel]) -> dict[str, str]:
    """A reference to one of the schemas that `install` adds."""
    return {"$ref": _REFERENCE.format(model=model.__name__)}


def install(app: FastAPI) -> None:
    """Let the application publish its document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(
        title="fedaudit", version=__version__, description=_DESCRIPTION, routes=app.routes
    )
    sent = [(model, "validation") for model in EXAMPLES]
    read = [(model, "serialization") for model in _READ]
    _, definitions = models_json_schema([*sent, *read], ref_template=_REFERENCE)  # type: ignore[list-item]
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in definitions["$defs"].items():
        schemas.setdefault(name, schema)
    _fit_for_generators(made)
    return made


def _fit_for_generators(document: dict[str, Any]) -> None:
    """Change a document so that generators make a client of all of it. They make a field's default
    that of a class's attribute, and cannot where it is an object: the field, and every operation
    that mentions it, would be left out. Event streams are declared as text: `itemSchema` is part of
    OpenAPI 3.2 and unknown in 3.1."""
    for schema in list(_schemas(document)):
        if schema.pop("itemSchema", None) is not None:
            schema["schema"] = TEXT
        default = schema.get("default")
        if any(
            isinstance(one, dict) for one in (default if isinstance(default, list) else [default])
        ):
            words = f"Unless given: `{json.dumps(schema.pop('default'))}`."
            schema["description"] = "\n\n".join(filter(None, (schema.get("description"), words)))


def _schemas(part: Any, *, named: bool = False) -> Iterator[dict[str, Any]]:
    """Every object of the document that may be a schema; `named`: its keys are names, such as a
    property that is called `default`."""
    if isinstance(part, list):
        for item in part:
            yield from _schemas(item)
    elif isinstance(part, dict):
        if not named:
            yield part
        for name, inner in part.items():
            # Of these members of a schema the values are no schemas.
            if named or name not in ("const", "default", "enum", "example", "examples"):
                yield from _schemas(inner, named=name == "properties" and not named)
