"""The OpenAPI document and the page that shows it."""

import re

import jsonschema
import pytest

from fedaudit.spec.registration import parse_registration, parse_uploaded
from tests.api.service import SPEC, Api, finish


@pytest.fixture
def document(api: Api) -> dict:
    """The OpenAPI document."""
    response = api.get("/openapi.json", key=None)
    assert response.status_code == 200
    return response.json()


def test_every_failure_is_declared_as_a_problem(document: dict) -> None:
    assert "HTTPValidationError" not in document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            failures = {
                status: response
                for status, response in operation["responses"].items()
                if status >= "4"
            }
            if path.startswith("/v1/"):
                assert {"401", "403", "413", "422", "500", "503"} <= set(failures)
                assert operation["security"] == [{"HTTPBearer": []}]
            if "{" in path:
                assert "404" in failures
            for response in failures.values():
                assert list(response["content"]) == ["application/problem+json"]
                schema = response["content"]["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}


def test_references_lead_somewhere_and_operations_have_names(document: dict) -> None:
    schemas = document["components"]["schemas"]
    references = set(re.findall(r"'\$ref': '#/components/schemas/([^']+)'", str(document)))
    assert {"ExperimentSpec", "Problem", "Report"} <= references
    assert references <= set(schemas)
    names = [
        operation["operationId"]
        for operations in document["paths"].values()
        for operation in operations.values()
    ]
    assert len(names) == len(set(names))


def _validate(document: dict, schema: dict, value: object) -> None:
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(
        value
    )


def test_the_schema_of_a_spec_is_the_specs_own(document: dict) -> None:
    operation = document["paths"]["/v1/experiments"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    _validate(document, schema, SPEC)
    for wrong in ({**SPEC, "surprise": 1}, {**SPEC, "seed": -1}, {}):
        with pytest.raises(jsonschema.ValidationError):
            _validate(document, schema, wrong)


def test_what_the_page_offers_to_send_is_a_registration(document: dict) -> None:
    content = document["paths"]["/v1/federations"]["post"]["requestBody"]["content"]
    assert parse_registration(content["application/json"]["example"]).name
    part = content["multipart/form-data"]["schema"]["properties"]["registration"]
    assert parse_uploaded(part["example"], file_name="incomes.csv").name


def test_answers_fit_their_schemas(api: Api, document: dict) -> None:
    id_, other = api.submit()["id"], api.submit()["id"]
    finish(api, id_)
    finish(api, other)
    names = {"experiment_id": id_, "name": "mine"}
    asked = {"/v1/comparisons": {"experiment_id": [id_, other]}}
    policy = {"gates": SPEC["gates"]}
    assert api.request("PUT", "/v1/gates/policies/mine", json=policy).status_code == 201
    for path, operations in document["paths"].items():
        content = operations.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        if "{federation_id}" in path or "application/json" not in content:
            continue
        response = api.get(path.format(**names), params=asked.get(path))
        assert response.status_code == 200, path
        _validate(document, content["application/json"]["schema"], response.json())


def test_the_page_fetches_nothing_from_elsewhere(api: Api) -> None:
    response = api.get("/docs", key=None)
    assert response.headers["content-type"].startswith("text/html")
    policy = response.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "http" not in policy
    assert "//" not in response.text.replace("<!doctype", "")
    addresses = re.findall(r'(?:src|href)="([^"]+)"', response.text)
    for address in addresses:
        if not address.startswith("data:"):
            assert api.get(f"/{address}", key=None).status_code == 200
    assert "docs/assets/swagger-ui-bundle.js" in addresses
    assert "http" not in api.get("/docs/start.js", key=None).text


def test_the_pages_lead_to_it(api: Api) -> None:
    assert 'href="/docs"' in api.client.get("/").text
