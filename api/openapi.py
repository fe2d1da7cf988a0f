"""The OpenAPI document: problems instead of the framework's errors, and the spec's own schema."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from api.client_generators import fit_for_generators
from api.examples import example_of
from api.http.problems import MEDIA_TYPE, Problem
from api.http.yaml_bodies import MEDIA_TYPES as YAML
from api.schemas.experiments import AttacksRequest
from api.schemas.federations import (
    BudgetSetting,
    ErasureRequest,
    ProposalRequest,
    SimulationSetting,
)
from api.schemas.people import KeyRequest, SignOffRequest
from api.schemas.reports import GatesRequest, PolicyRequest
from api.schemas.sweeps import SweepTableBody
from api.schemas.webhooks import WebhookChange, WebhookRequest
from fedaudit import __version__
from fedaudit.audits.audit_document import AuditReport
from fedaudit.reports.declared.declared_document import DeclaredReport
from fedaudit.reports.document.document import Report
from fedaudit.reports.readings.reading_choice import READINGS
from fedaudit.spec.audits.audit_spec import AuditSpec
from fedaudit.spec.declared_ledgers import LedgerTerms, ReservationRequest, RoundsRequest
from fedaudit.spec.disclosure.disclosure_policy import DisclosurePolicy
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.registration import Registration
from fedaudit.spec.sweeps.sweep_spec import SweepSpec

Responses = dict[int | str, dict[str, Any]]

_REFERENCE = "#/components/schemas/{model}"
_WHAT = {
    401: "No API key, or one that is not in force.",
    403: "The API key lacks the scope.",
    404: "There is no such thing in the key's project.",
    409: "The request does not fit the present state.",
    410: "It was there and was removed; `reason` and `gone_at` say why and when.",
    412: "It has changed since the client saw it, or is there already.",
    413: "The body is too large.",
    415: "The body has another media type than declared.",
    422: "The input is not valid; `errors` says where.",
    408: "The body came too slowly.",
    429: "Streams or requests wait, or a quota is reached; `Retry-After` says when to ask again.",
    500: "The service failed.",
    503: "The database does not answer, or the storage is full or fails.",
}
_ALWAYS = (401, 403, 413, 422, 429, 500, 503)
SENT: tuple[type[BaseModel], ...] = (
    AuditSpec,
    ExperimentSpec,
    SweepSpec,
    Registration,
    BudgetSetting,
    SimulationSetting,
    ErasureRequest,
    DisclosurePolicy,
    ProposalRequest,
    GatesRequest,
    PolicyRequest,
    KeyRequest,
    SignOffRequest,
    AttacksRequest,
    WebhookRequest,
    WebhookChange,
    LedgerTerms,
    RoundsRequest,
    ReservationRequest,
)
_READ: tuple[type[BaseModel], ...] = (
    Problem,
    Report,
    AuditReport,
    DeclaredReport,
    SweepTableBody,
    *(one.schema for one in READINGS.values() if isinstance(one.schema, type)),
)
_DESCRIPTION = """\
Privacy and fairness audits of federated learning: submit an experiment, follow it, and read its
epsilon ledger, fairness gaps and audit report. Failures are problem documents (RFC 9457).

What answers GET answers HEAD. Whole answers have an `ETag`; sent back in `If-None-Match` it is
answered 304 while it holds. Every answer names its request in `X-Request-ID`, by the client's own
id where it sent one of 8 to 64 letters, digits and `.`, `_`, `~`, `-`."""


def problems(*statuses: int) -> Responses:
    """The declaration of these failures and of those that every call under /v1 may end in."""
    return {
        status: {
            "description": _WHAT[status],
            "content": {MEDIA_TYPE: {"schema": schema_of(Problem)}},
        }
        for status in sorted({*_ALWAYS, *statuses})
    }


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """The declaration of a body that the route reads itself, with the model's example."""
    example = example_of(model)
    described = {"schema": schema_of(model)} | ({} if example is None else {"example": example})
    content = {"application/json": described}
    # Not as a content of its own: generators of clients make no use of it.
    words = f"JSON, or YAML of the same form ({', '.join(f'`{one}`' for one in YAML)})."
    return {"requestBody": {"description": words, "required": True, "content": content}}


def upload_body(model: type[BaseModel], *, uploaded: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration of a body that is JSON, or JSON with a file behind it.

    `uploaded` is what the page offers to send before a file.
    """
    described = request_body(model)
    content = described["requestBody"]["content"]
    content["multipart/form-data"] = {
        "schema": {
            "type": "object",
            "properties": {
                "registration": {
                    **schema_of(model),
                    "description": "The first part, without the file's `path`.",
                    "example": dict(uploaded),
                },
                "file": {"type": "string", "format": "binary"},
            },
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


def operation_id(route: APIRoute) -> str:
    """The name of an operation in the document, and of its function in generated clients."""
    return route.name


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
    sent = [(model, "validation") for model in SENT]
    read = [(model, "serialization") for model in _READ]
    _, definitions = models_json_schema([*sent, *read], ref_template=_REFERENCE)  # type: ignore[list-item]
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in definitions["$defs"].items():
        schemas.setdefault(name, schema)
    fit_for_generators(made)
    return made
