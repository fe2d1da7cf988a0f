"""One trace from the request to its rounds, read as a collector receives it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.api.service import SPEC
from tests.cli.service import clean_environment, running
from tests.waiting import wait_until

TRACE = "0af7651916cd43dd8448eb211c80319c"
SENT = f"00-{TRACE}-b7ad6b7169203331-01"
Span = dict[str, Any]


@pytest.fixture
def collector() -> Iterator[tuple[str, list[Span]]]:
    """The address of a collector, and the spans that it was sent."""
    spans: list[Span] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = _values(of_resource.resource.attributes)["service.name"]
                spans.extend(
                    {
                        "service": service,
                        "name": one.name,
                        "trace": one.trace_id.hex(),
                        "id": one.span_id.hex(),
                        "parent": one.parent_span_id.hex(),
                        "events": len(one.events),
                        **_values(one.attributes),
                    }
                    for of_scope in of_resource.scope_spans
                    for one in of_scope.spans
                )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing to say."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", spans
        server.shutdown()


def _values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


def test_one_trace_leads_from_the_request_to_the_rounds(collector, tmp_path):
    endpoint, spans = collector
    environment = clean_environment(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
    with running(data_dir=tmp_path / "data", environment=environment) as service:
        headers = {"Authorization": f"Bearer {service.api_key}"}
        with httpx.Client(base_url=service.url, headers=headers, trust_env=False) as http:
            made = http.post("/v1/experiments", json=SPEC, headers={"traceparent": SENT}).json()
            path = f"/v1/experiments/{made['id']}"
            ended = lambda: http.get(path).json()["status"] == "succeeded"  # noqa: E731
            wait_until(ended, "the end", seconds=180, pause=0.1)
        # What ends well sends what it has.
        service.stop()
    log = (service.data_dir / "logs" / "worker.log").read_text()
    assert TRACE in log
    mine = [one for one in spans if one["trace"] == TRACE]
    by_id = {one["id"]: one for one in mine}
    [request] = [one for one in mine if one["name"] == "POST /v1/experiments"]
    assert request["parent"] == SENT.split("-")[2]
    assert (request["service"], request["http.response.status_code"]) == ("fedaudit-api", 202)
    [unit] = [one for one in mine if one["name"] == "fedaudit.unit"]
    assert by_id[unit["parent"]] == request
    assert (unit["service"], unit["fedaudit.attempt"]) == ("fedaudit-worker", 1)
    for name in ("fedaudit.rounds", "fedaudit.flush"):
        found = [one for one in mine if one["name"] == name]
        assert {one["parent"] for one in found} == {unit["id"]}
        assert {one["fedaudit.experiment_id"] for one in found} == {made["id"]}
        assert min(one["fedaudit.round"] for one in found) == 1
    rounds = [one for one in mine if one["name"] == "fedaudit.rounds"]
    assert sum(one["fedaudit.rounds"] for one in rounds) == SPEC["training"]["rounds"]
    # Others' requests are in traces of their own, and probes in none.
    assert not [one for one in spans if "/health" in one["name"]]
    assert len({one["trace"] for one in spans}) > 1


def test_what_an_error_says_is_in_no_span(collector: tuple[str, list[Span]]) -> None:
    endpoint, spans = collector
    code = (
        "from infrastructure.telemetry import configure_tracing, span\n"
        "configure_tracing('t')\n"
        "try:\n"
        "    with span('reading'):\n"
        "        float('Mrs Jones')\n"
        "except ValueError:\n"
        "    pass\n"
    )
    environment = clean_environment(OTEL_EXPORTER_OTLP_ENDPOINT=endpoint)
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
    [one] = spans
    assert (one["error.type"], one["events"]) == ("ValueError", 0)
    assert "Jones" not in str(one)
