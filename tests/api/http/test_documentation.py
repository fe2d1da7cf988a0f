"""The OpenAPI document and the page that shows it."""

import json
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import validate
from pydantic import BaseModel

from api import openapi
from fedaudit.spec.registration import parse_uploaded
from tests.api.http.promised import PROMISED, promises
from tests.api.service import Api, body_of, finish
from tests.client.generated import PACKAGE, bodies, generate, lost


@pytest.fixture
def document(shared_api: Api) -> dict:
    """The OpenAPI document, which an application makes once."""
    return body_of(shared_api.get("/openapi.json", key=None))


def _operations(document: dict) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield method, path, operation


def _parts(part: Any) -> Iterator[dict[str, Any]]:
    for item in part if isinstance(part, list) else part.values():
        if isinstance(item, dict):
            yield item
        if isinstance(item, dict | list):
            yield from _parts(item)


def test_the_document_is_openapi_and_its_references_lead_somewhere(document: dict) -> None:
    validate(document)
    schemas = document["components"]["schemas"]
    references = {str(part["$ref"]) for part in _parts(document) if "$ref" in part}
    assert "#/components/schemas/ExperimentSpec" in references
    assert references <= {f"#/components/schemas/{name}" for name in schemas}


def test_operations_have_the_short_names_of_what_they_do(document: dict) -> None:
    names = [operation["operationId"] for _, _, operation in _operations(document)]
    assert len(names) == len(set(names))
    assert {"submit_experiment", "list_experiments", "get_report", "set_budget"} <= set(names)
    assert [name for name in names if not re.fullmatch("[a-z]+(_[a-z0-9]+){1,4}", name)] == []


def test_nothing_that_was_promised_is_taken_back(document: dict) -> None:
    """docs/versions.md says how a name may end."""
    promised, found = json.loads(PROMISED.read_text("utf-8")), promises(document)
    for name, (place, *parameters) in promised["operations"].items():
        assert found["operations"][name][0] == place
        assert set(parameters) <= set(found["operations"][name]), name
    for name, fields in promised["fields"].items():
        assert set(fields) <= set(found["fields"][name]), name
    for name, needed in promised["needed"].items():
        assert set(found["needed"][name]) <= set(needed), name


def test_nothing_trips_generators_of_clients(document: dict) -> None:
    """What openapi-python-client and openapi-generator have refused, or made wrongly."""
    for part in _parts(document):
        default = part.get("default")
        values = default if isinstance(default, list) else [default]
        # A property may have the name `default`, and then has a schema of its own.
        assert not any(isinstance(value, dict) and "type" not in value for value in values), part
        assert not part.keys() & {"itemSchema", "prefixItems", "patternProperties"}
        for member in (*part.get("anyOf", ()), *part.get("oneOf", ())):
            assert "const" not in member, part
        if part.get("type") == "null":
            # On its own it is no type of a field.
            assert set(part) == {"type"}
    for _, path, operation in _operations(document):
        for status, response in operation["responses"].items():
            assert len(response.get("content", {})) <= 1, (path, status)
        names = [re.sub("[^a-z0-9]", "", one["name"]) for one in operation.get("parameters", [])]
        assert len(names) == len(set(names)), path


def test_every_failure_is_declared_as_a_problem(document: dict) -> None:
    assert "HTTPValidationError" not in document["components"]["schemas"]
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    for _, path, operation in _operations(document):
        answers = operation["responses"].items()
        failures = {status: answer for status, answer in answers if status >= "4"}
        if path.startswith("/v1/"):
            assert {"401", "403", "413", "422", "500", "503"} <= set(failures)
            assert operation["security"] == [{"HTTPBearer": []}]
        assert "{" not in path or "404" in failures
        for answer in failures.values():
            assert answer["content"] == {"application/problem+json": problem}


def test_what_the_page_offers_to_send_can_be_sent(api: Api, document: dict) -> None:
    models: dict[str, type[BaseModel]] = {one.__name__: one for one in openapi.EXAMPLES}
    for _, path, operation in _operations(document):
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" in content:
            described = content["application/json"]
            schema = {**described["schema"], "components": document["components"]}
            jsonschema.Draft202012Validator(schema).validate(described["example"])
            model = models[described["schema"]["$ref"].rpartition("/")[2]]
            assert model.model_validate(described["example"]), path
    posted = document["paths"]["/v1/experiments"]["post"]["requestBody"]["content"]
    example = posted["application/json"]["example"]
    assert api.post("/v1/experiments", json=example).status_code == 202
    federations = document["paths"]["/v1/federations"]["post"]["requestBody"]["content"]
    part = federations["multipart/form-data"]["schema"]["properties"]["registration"]
    assert parse_uploaded(part["example"], file_name="incomes.csv").name


def test_the_page_fetches_nothing_from_elsewhere(api: Api) -> None:
    response = api.get("/docs", key=None)
    assert response.headers["content-type"].startswith("text/html")
    policy = response.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "http" not in policy
    assert "//" not in response.text.replace("<!doctype", "")
    addresses = re.findall(r'(?:src|href)="([^"]+)"', response.text)
    for address in addresses:
        if not address.startswith(("data:", "./")):
            assert api.get(f"/{address}", key=None).status_code == 200
    assert "docs/assets/swagger-ui-bundle.js" in addresses
    assert '<a href="./">' in response.text
    assert "http" not in api.get("/docs/start.js", key=None).text


# -- a client that openapi-python-client makes sends every example, and reads what is answered ----


def test_it_sends_every_example_and_reads_the_answers(api, tmp_path, monkeypatch):
    document = api.get("/openapi.json", key=None).json()
    generate(document, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    models = import_module(f"{PACKAGE}.models")
    found = [*bodies(document)]
    assert len(found) > 50
    for name, schema, body in found:
        assert lost(body, getattr(models, schema).from_dict(body).to_dict()) == "", name

    [spec] = [body for name, _, body in found if name == "submit_experiment"]
    submitted = api.post("/v1/experiments", json=spec).json()
    id_ = submitted["id"]
    read = models.SubmittedBody.from_dict(submitted)
    assert isinstance(read.spec, models.ExperimentSpec)
    # What was answered is sent again as it is.
    assert api.post("/v1/experiments", json=read.spec.to_dict()).status_code == 202
    finish(api, id_)
    for path, schema in {
        f"/experiments/{id_}": "ExperimentBody",
        f"/experiments/{id_}/report": "Report",
        f"/experiments/{id_}/privacy-ledger": "LedgerPage",
        f"/experiments/{id_}/fairness": "FairnessPage",
        "/federations": "FederationPage",
        "/reports": "ReportPage",
    }.items():
        # As Python writes times.
        answer = json.loads(api.get(f"/v1{path}").text.replace('Z"', '+00:00"'))
        assert lost(answer, getattr(models, schema).from_dict(answer).to_dict()) == "", path
    for module in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[module]
