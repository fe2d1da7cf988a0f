"""Whatever is sent, no answer is a 5xx or other than declared (Schemathesis)."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings, strategies
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.service import Api, all_operations, finish

CHECKS = [
    *(not_a_server_error, status_code_conformance, content_type_conformance),
    *(response_headers_conformance, response_schema_conformance),
]


@pytest.fixture(scope="module")
def fuzzed(shared_api: Api) -> Api:
    """An API with a finished experiment, shared by all examples."""
    finish(shared_api, shared_api.submit()["id"])
    return shared_api


@pytest.fixture(scope="module")
def document(fuzzed: Api) -> schemathesis.BaseSchema:
    """The document of the running application."""
    return schemathesis.openapi.from_asgi("/openapi.json", fuzzed.client.app)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("method", "path"), all_operations())
def test_answers_are_those_declared(fuzzed, document, method, path, mode):
    [experiment] = fuzzed.get("/v1/experiments?status=succeeded").json()["items"]
    names = {"experiment_id": experiment["id"], "federation_id": experiment["federation_id"]}

    @given(
        case=document[path][method].as_strategy(generation_mode=mode), found=strategies.booleans()
    )
    @settings(
        max_examples=3,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: schemathesis.Case, found: bool) -> None:
        if found:
            # Ids drawn at random lead nowhere: half of the cases ask for what is there.
            case.path_parameters |= {
                name: id_ for name, id_ in names.items() if name in case.path_parameters
            }
        case.headers["Authorization"] = f"Bearer {fuzzed.key}"
        case.call_and_validate(checks=CHECKS)

    check()
