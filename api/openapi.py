"""The OpenAPI document: problems instead of the framework's errors, and the spec's own schema."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from api.http.problems import MEDIA_TYPE, Problem
from api.schemas.budget_bodies import BudgetSetting
from api.schemas.federations import SimulationSetting
from api.schemas.gates import GatesRequest, PolicyRequest
from api.schemas.keys import KeyRequest
from fedaudit import __version__
from fedaudit.reports.document.document import Report
from fedaudit.reports.readings.reading_choice import READINGS
from fedaudit.spec.disclosure.disclosure_policy import DisclosurePolicy
from fedaudit.spec.experiment import ExperimentSpec
from fedaudit.spec.registration import Registration

Responses = dict[int | str, dict[str, Any]]

_REFERENCE = "#/components/schemas/{model}"
_WHAT = {
    401: "No API key, or one that is not in force.",
    403: "The API key lacks the scope.",
    404: "There is no such thing in the key's project.",
    409: "The request does not fit the present state.",
    413: "The body is too large.",
    415: "The body has another media type than declared.",
    422: "The input is not valid; `errors` says where.",
    408: "The body came too slowly.",
    429: "Too many event streams are open, or requests wait; `Retry-After` says when to ask again.",
    500: "The service failed.",
    503: "The database does not answer, or the storage is full or fails.",
}
_ALWAYS = (401, 403, 413, 422, 500, 503)
_SENT: tuple[type[BaseModel], ...] = (
    ExperimentSpec,
    Registration,
    BudgetSetting,
    SimulationSetting,
    DisclosurePolicy,
    GatesRequest,
    PolicyRequest,
    KeyRequest,
)
_READ: tuple[type[BaseModel], ...] = (
    Problem,
    Report,
    *(one.schema for one in READINGS.values() if isinstance(one.schema, type)),
)
_DESCRIPTION = """\
Privacy and fairness audits of federated learning: submit an experiment, follow it, and read its
epsilon ledger, fairness gaps and audit report. Failures are problem documents (RFC 9457)."""


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
    """The declaration of a JSON body that the route reads itself."""
    content = {"application/json": {"schema": schema_of(model)}}
    return {"requestBody": {"required": True, "content": content}}


def upload_body(
    model: type[BaseModel], *, example: Mapping[str, Any], uploaded: Mapping[str, Any]
) -> dict[str, Any]:
    """The declaration of a body that is JSON, or JSON with a file behind it.

    `example` and `uploaded` are what the page offers to send as the one and as the other.
    """
    described = request_body(model)
    content = described["requestBody"]["content"]
    content["application/json"]["example"] = dict(example)
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
    sent = [(model, "validation") for model in _SENT]
    read = [(model, "serialization") for model in _READ]
    _, definitions = models_json_schema([*sent, *read], ref_template=_REFERENCE)  # type: ignore[list-item]
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in definitions["$defs"].items():
        schemas.setdefault(name, schema)
    return made
