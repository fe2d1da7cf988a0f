"""What the log says of requests: their ids, and nothing that they asked for."""

import io
import json
import logging
import uuid
from collections.abc import Callable

import pytest

from infrastructure.logs import configure_logs
from tests.api.service import SPEC, Api

Lines = Callable[[], list[dict[str, object]]]


@pytest.fixture
def lines(restored_logs: None) -> Lines:
    """Reads what was logged so far."""
    configure_logs("json")
    written = io.StringIO()
    [handler] = logging.getLogger().handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(written)
    # What the test's own client says of its requests.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    return lambda: [json.loads(line) for line in written.getvalue().splitlines()]


def test_a_request_is_found_by_its_id_and_its_experiment(api: Api, lines: Lines) -> None:
    sent = {"X-Request-ID": "request-0001"}
    response = api.post("/v1/experiments", json=SPEC, headers=sent)
    experiment_id = response.json()["id"]
    path = f"/v1/experiments/{experiment_id}/privacy-ledger"
    api.get(f"{path}?client=Mrs-Jones", headers={"X-Request-ID": "request-0002"})
    api.get("/health/live")
    api.get("/v1/%0Afaked")
    said = lines()
    by_request = {
        name: [line for line in said if line.get("request_id") == name]
        for name in ("request-0001", "request-0002")
    }
    [queued] = [line for line in by_request["request-0001"] if line["event"] == "experiment queued"]
    assert queued["experiment_id"] == experiment_id
    assert queued["unit_id"] == api.stored(experiment_id).unit_id
    [asked] = by_request["request-0002"]
    assert (asked["event"], asked["method"], asked["path"]) == ("request", "GET", path)
    assert (asked["status"], asked["experiment_id"]) == (200, experiment_id)
    text = json.dumps(said)
    for secret in ("Mrs-Jones", api.key, "/health/live"):
        assert secret not in text
    assert [line["path"] for line in said if line.get("status") == 404] == ["/v1/%0Afaked"]


# -- every answer names its request ---------------------------------------------------------------


@pytest.fixture
def api(shared_api: Api) -> Api:
    """Nothing that a test here stores is in the way of another."""
    return shared_api


@pytest.mark.parametrize("path", ["/v1/experiments", "/v1/nowhere", "/health/live", "/sign-in"])
@pytest.mark.parametrize("odd", [None, "short", "x" * 65, "two words", "<script>", "a;b=c;d=e"])
def test_an_answer_has_an_id_of_its_own_where_it_was_sent_no_sane_one(api, path, odd):
    sent = {} if odd is None else {"X-Request-ID": odd}
    first, second = (api.get(path, headers=sent).headers["x-request-id"] for _ in range(2))
    assert uuid.UUID(first) != uuid.UUID(second)


def test_a_problem_is_the_instance_that_its_request_is(api: Api) -> None:
    answer = api.get("/v1/experiments/x")
    assert answer.json()["instance"] == f"urn:uuid:{answer.headers['x-request-id']}"
    too_large = api.post("/v1/experiments", content=b"", headers={"Content-Length": "9" * 12})
    assert too_large.json()["instance"] == f"urn:uuid:{too_large.headers['x-request-id']}"
    sane = "8f14e45f.build_7~a-b"
    own = api.get("/v1/experiments/x", headers={"X-Request-ID": sane})
    assert (own.headers["x-request-id"], own.json()["instance"]) == (
        sane,
        f"urn:x-request-id:{sane}",
    )
