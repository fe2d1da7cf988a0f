"""Run events at a receiver over HTTP, read back into OpenLineage's own classes."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("openlineage.client", reason="needs the extra `integrations`: OpenLineage")

from openlineage.client import event_v2
from openlineage.client.facet_v2 import test_run

from fedaudit.publishing.openlineage_events import PRODUCER

pytestmark = pytest.mark.integrations


@pytest.fixture
def receiver():
    """The address of a receiver, and the requests that it was sent: path, token and body."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, self.headers["Authorization"], json.loads(body)))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_experiment_is_a_run_with_its_gates_as_tests(there, publish, receiver):
    url, received = receiver
    publish("openlineage", there.simulated, "--url", url, OPENLINEAGE_API_KEY="token")
    publish("openlineage", there.simulated, "--url", url)
    assert [path for path, _, _ in received] == ["/api/v1/lineage"] * 4
    assert [token for _, token, _ in received] == ["Bearer token"] * 2 + [None] * 2
    begun, ended, *again = [body for _, _, body in received]
    assert again == [begun, ended]
    assert [one["eventType"] for one in (begun, ended)] == ["START", "COMPLETE"]
    experiment = there.client.get(there.simulated)
    for one in (begun, ended):
        # Its classes check the run's id and the times.
        event_v2.RunEvent(
            eventTime=one["eventTime"],
            run=event_v2.Run(runId=one["run"]["runId"]),
            job=event_v2.Job(namespace=one["job"]["namespace"], name=one["job"]["name"]),
            eventType=event_v2.RunState(one["eventType"]),
            producer=one["producer"],
        )
        assert one["run"]["runId"] == there.simulated
        assert one["job"] | {"facets": None} == {
            "namespace": "fedaudit",
            "name": "small",
            "facets": None,
        }
        assert one["producer"] == PRODUCER
    assert begun["eventTime"] < ended["eventTime"] <= experiment["finished_at"]
    facet = ended["run"]["facets"]["test"]
    tests = test_run.TestRunFacet(
        tests=[test_run.TestExecution(**one) for one in facet["tests"]]
    ).tests
    assert [(one.name, one.status) for one in tests] == [
        ("participations_max <= 12", "pass"),
        ("leakage_max <= 40", "fail"),
        ("equalized_odds_difference <= 0", "fail"),
    ]
    assert tests[1].description.startswith("insufficient_evidence: the noise was simulated")
    [data] = ended["inputs"]
    report = there.client.report(there.simulated)
    version = data["facets"]["version"]["datasetVersion"]
    assert version == report["provenance"]["data_fingerprint"]
    assert "1000" not in json.dumps([begun, ended["inputs"]])  # rows of the federation


def test_a_cancelled_experiment_is_aborted_and_a_running_one_refused(there, publish, receiver):
    url, received = receiver
    long = {**there.client.get(there.simulated)["spec"], "name": "long"}
    long["training"] = {**long["training"], "rounds": 100_000}
    experiment = there.client.submit(long)["id"]
    with pytest.raises(AssertionError, match="publish it once it has ended"):
        publish("openlineage", experiment, "--url", url)
    there.client.cancel(experiment)
    there.client.wait(experiment)
    publish("openlineage", experiment, "--url", url)
    ended = received[-1][2]
    assert ended["eventType"] == "ABORT"
    assert "cancelled" in ended["run"]["facets"]["errorMessage"]["message"]
