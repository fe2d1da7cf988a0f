"""Every answer names its request."""

import uuid

import pytest

from tests.api.service import Api


@pytest.fixture
def api(shared_api: Api) -> Api:
    """Nothing that a test here stores is in the way of another."""
    return shared_api


@pytest.mark.parametrize("path", ["/v1/experiments", "/v1/nowhere", "/health/live", "/sign-in"])
def test_every_answer_has_an_id_of_its_own(api: Api, path: str) -> None:
    first, second = api.get(path), api.get(path)
    assert uuid.UUID(first.headers["x-request-id"]) != uuid.UUID(second.headers["x-request-id"])


def test_a_problem_is_the_instance_that_its_request_is(api: Api) -> None:
    answer = api.get("/v1/experiments/x")
    assert answer.json()["instance"] == f"urn:uuid:{answer.headers['x-request-id']}"
    too_large = api.post("/v1/experiments", content=b"", headers={"Content-Length": "9" * 12})
    assert too_large.json()["instance"] == f"urn:uuid:{too_large.headers['x-request-id']}"
    own = api.get("/v1/experiments/x", headers={"X-Request-ID": "pipeline-0042"})
    assert own.json()["instance"] == "urn:x-request-id:pipeline-0042"


def test_a_sane_id_is_taken_from_the_client_and_no_other(api: Api) -> None:
    sane = "8f14e45f.build_7~a-b"
    assert api.get("/v1/experiments", headers={"X-Request-ID": sane}).headers["x-request-id"] == (
        sane
    )
    for odd in ("short", "x" * 65, "two words", "<script>", 'quote"quote', "a;b=c;d=e"):
        answer = api.get("/v1/experiments", headers={"X-Request-ID": odd})
        assert uuid.UUID(answer.headers["x-request-id"])
