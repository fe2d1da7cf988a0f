"""Whatever is sent, no answer is a 5xx or other than declared (Schemathesis)."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.shared.page_printer import PagePrinter
from tests.api.ledgers.trainings import declared, opened
from tests.api.pages.browser import printed
from tests.api.service import SPEC, Api, all_operations, finished

CHECKS = [
    *(not_a_server_error, status_code_conformance, content_type_conformance),
    *(response_headers_conformance, response_schema_conformance),
]


@pytest.fixture(scope="module")
def names(shared_api: Api) -> dict[str, str]:
    """The ids of what is there: of a finished experiment, its federation, and others."""
    api, id_ = shared_api, finished(shared_api)
    swept = {"name": "swept", "base": SPEC, "grid": {"seed": [1, 2]}}
    hook = {"url": "https://hooks.example.org", "events": ["gate.failed"]}
    return {
        "experiment_id": id_,
        "federation_id": str(api.stored(id_).federation_id),
        "ledger_id": opened(api, rounds=[declared(1, ["a"])]),
        "sweep_id": api.post("/v1/sweeps", json=swept).json()["id"],
        "webhook_id": api.post("/v1/webhooks", json=hook).json()["id"],
    }


@pytest.fixture(scope="module")
def document(shared_api: Api) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_asgi("/openapi.json", shared_api.client.app)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("method", "path"), all_operations())
def test_answers_are_those_declared(shared_api, names, document, method, path, mode, monkeypatch):
    monkeypatch.setattr(PagePrinter, "pdf", printed)

    @given(case=document[path][method].as_strategy(generation_mode=mode))
    @settings(
        max_examples=3 if method in ("PATCH", "POST", "PUT") else 2,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: schemathesis.Case) -> None:
        case.headers["Authorization"] = f"Bearer {shared_api.key}"
        case.call_and_validate(checks=CHECKS)
        # Ids drawn at random lead nowhere: so it is asked for what is there, too.
        there = {name: id_ for name, id_ in names.items() if name in case.path_parameters}
        if there and method != "DELETE":
            case.path_parameters |= there
            case.call_and_validate(checks=CHECKS)

    check()
