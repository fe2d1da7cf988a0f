"""The OpenAPI document: problems instead of the framework's errors, and the spec's own schema; and
the routes that it describes."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from api.http.bodies import JsonBody, validated
from api.http.problems import MEDIA_TYPE, Problem
from api.schemas.base import Parameters
from api.schemas.experiments import ExperimentEvent, ProjectedEpsilon
from api.schemas.federations import Profile
from api.schemas.people import EnvelopeBody
from fedaudit import __version__
from fedaudit.spec.base import STANDS_FOR, Described

Responses = dict[int | str, dict[str, Any]]

TEXT = {"type": "string"}
BINARY = {"type": "string", "format": "binary"}
_BY_VALUE = "x-by-value"
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

What answers GET answers HEAD, and OPTIONS names the methods of a path. Each form of a report or
table has a path; by the header `Accept` the path without a suffix has them too. Every answer names
its request in `X-Request-ID`, by the client's own id where it sent one of 8 to 64 letters, digits
and `.`, `_`, `~`, `-`."""
API_VERSION = "1.0.0"
"""Version of the interface, not of the software: docs/versions.md states what changes it."""
_CONSTANT: dict[str, Any] = json.loads(Path(__file__).with_name("document.json").read_text("utf-8"))
EXAMPLES: dict[type[BaseModel], Any] = {}
"""Every model of a body that is sent, with a body that can be sent as it is; routes add theirs."""
_READ: dict[type[BaseModel], None] = dict.fromkeys(
    (EnvelopeBody, Profile, ProjectedEpsilon, ExperimentEvent)
)
"""Models of answers that no route returns as one; routes add those that they refer to."""


def schema_of(model: type[BaseModel]) -> dict[str, str]:
    """A reference to the model's schema, which `install` adds to the document."""
    if model not in EXAMPLES:
        _READ[model] = None
    return {"$ref": _REFERENCE.format(model=model.__name__)}


def problems(*statuses: int) -> Responses:
    """The declaration of these failures, beside those that `Router` declares."""
    content = {MEDIA_TYPE: {"schema": schema_of(Problem)}}
    return {status: {"description": _WHAT[status], "content": content} for status in statuses}


def contents(description: str, media_type: str, schema: Any, *failures: int) -> Responses:
    """The declaration of an answer, and of failures."""
    content = {media_type: {"schema": schema}}
    return {**problems(*failures), 200: {"description": description, "content": content}}


def contents_by(
    description: str, forms: Mapping[str, tuple[str, Any]], *failures: int
) -> Responses:
    """The declaration of an answer whose media type and schema depend on the path's last
    parameter: the document has an operation for each of its values."""
    by = {value: {media: {"schema": schema}} for value, (media, schema) in forms.items()}
    return {**problems(*failures), 200: {"description": description, _BY_VALUE: by}}


PAGE = contents("The report.", "text/html", TEXT, 404)
PDF_FILE = contents("The report.", "application/pdf", BINARY, 404, 503)
BUNDLE = contents("The bundle.", "application/zip", BINARY, 404, 409)


def located(status: int, description: str, what: str, **more: Any) -> Responses:
    """The declaration of an answer with the address of `what` in the header `Location`."""
    header = {"Location": {"description": f"The {what}.", "schema": TEXT}}
    return {status: {"description": description, "headers": header, **more}}


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """The declaration of a body that a route reads, with the model's example."""
    EXAMPLES[model] = _CONSTANT["examples"][model.__name__]
    described = {"schema": schema_of(model), "example": EXAMPLES[model]}
    return {"requestBody": {"required": True, "content": {"application/json": described}}}


class Router(APIRouter):
    """Routes of the HTTP interface. A parameter whose type is `Described` is the request's body,
    and one whose type is `Parameters` its query. A failure that follows from a path or body, or
    that every request may end in, is declared here."""

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add a route as FastAPI does, but read its body strictly."""
        given, body = inspect.signature(endpoint), options["openapi_extra"] or {}
        by_name = {
            name: one.replace(kind=one.KEYWORD_ONLY) for name, one in given.parameters.items()
        }
        for name, one in by_name.items():
            kind = one.annotation if isinstance(one.annotation, type) else object
            if issubclass(kind, Described):
                body = request_body(kind)
                by_name[name] = one.replace(default=Depends(_reader_of(kind)))
            elif issubclass(kind, Parameters):
                by_name[name] = one.replace(annotation=Annotated[kind, Query()])
        parameters = list(by_name.values())
        endpoint.__signature__ = given.replace(parameters=parameters)  # type: ignore[attr-defined]
        missing = (404,) if "{" in self.prefix + path else ()
        wrong_type = (415,) if "requestBody" in body else ()
        answers = problems(*_ALWAYS, *missing, *wrong_type) | (options["responses"] or {})
        written = {"content", _BY_VALUE} & answers.get(200, {}).keys()
        if written or options["status_code"] == 204:
            options["response_class"] = Response  # the route writes it, or it has no body
        options |= {"openapi_extra": body, "responses": answers}
        super().add_api_route(path, endpoint, **options)


def _reader_of(model: type[Described]) -> Callable[..., Any]:
    async def read(value: JsonBody) -> Described:
        return validated(model, value)

    return read


def query_parameters(model: type[BaseModel]) -> dict[str, Any]:
    """The declaration of parameters of the query that the route reads itself."""
    declared = model.model_json_schema()["properties"].items()
    of_all = {"in": "query", "required": False}
    described = (
        {"name": name, **of_all, "schema": one, "description": one.get("description")}
        for name, one in declared
    )
    return {"parameters": list(described)}


def upload_body(model: type[BaseModel]) -> dict[str, Any]:
    """The declaration of a body that is a registration in JSON, or one with a file behind it."""
    described = request_body(model)
    upload = deepcopy(EXAMPLES[model])
    del upload["federation"]["path"]
    registration = {
        **schema_of(model),
        "description": "The first part, without the file's `path`.",
        "example": upload,
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


def install(app: FastAPI) -> None:
    """Let the application publish its document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    made = get_openapi(
        version=API_VERSION, description=_DESCRIPTION, routes=app.routes, **_CONSTANT["about"]
    )
    made["info"]["x-software-version"] = __version__
    made["paths"] = dict(_one_form_each(made["paths"]))
    sent = [(model, "validation") for model in EXAMPLES]
    read = [(model, "serialization") for model in _READ]
    _, definitions = models_json_schema([*sent, *read], ref_template=_REFERENCE)  # type: ignore[list-item]
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in definitions["$defs"].items():
        schemas.setdefault(name, schema)
    _fit_for_generators(made)
    return made


def _one_form_each(paths: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The paths, with one for each form of an answer that `contents_by` declared."""
    for path, item in paths.items():
        forms = item.get("get", {}).get("responses", {}).get("200", {}).pop(_BY_VALUE, None)
        if forms is None:
            yield path, item
            continue
        stem, _, name = path.rstrip("}").rpartition("{")
        for value, content in forms.items():
            operation = deepcopy(item["get"])
            operation["operationId"] += f"_{value.replace('-', '_')}"
            operation["summary"] += f" {value}"
            operation["responses"]["200"]["content"] = content
            operation["parameters"] = [
                one for one in operation["parameters"] if one["name"] != name
            ]
            yield stem + value, {"get": operation}


def _fit_for_generators(document: dict[str, Any]) -> None:
    """Change a document so that generators make a client of all of it; what is valid stays so. They
    make a field's default that of a class's attribute, and cannot where it is an object or of a
    union: the field, and all that mentions it, would be left out, or not compile. Of a union that
    has a `const` they try no other member, and of tuples and patterns of names they make nothing.
    The schema of a stream is that of an event, or text for those that read it as a whole:
    `itemSchema` is part of OpenAPI 3.2, unknown in 3.1."""
    for schema in list(_schemas(document)):
        if schema.pop("itemSchema", None) is not None:
            schema["schema"] = {"anyOf": [schema_of(ExperimentEvent), TEXT]}
        if name := schema.pop(STANDS_FOR, None):
            schema["$ref"] = _REFERENCE.format(model=name)
        for member in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())):
            if "const" in member and (member is not schema or isinstance(schema["const"], int)):
                member["enum"] = [member.pop("const")]
        if parts := schema.pop("prefixItems", None):
            schema["items"] = parts[0]
        if patterns := schema.pop("patternProperties", None):
            [(pattern, schema["additionalProperties"])] = patterns.items()
            schema["propertyNames"] = {"pattern": pattern}
        default = schema.get("default")
        values = default if isinstance(default, list) else [default]
        of_union = default is not None and ("anyOf" in schema or "oneOf" in schema)
        if of_union or any(isinstance(one, dict) for one in values):
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
