"""Failures outside any route's own errors are problem documents too."""

import io
import itertools
import json
import logging
import socket
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
import structlog
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from api.app import create_app
from api.http import middleware
from benchmarks.served_api import http
from infrastructure.logs import configure_logs
from infrastructure.settings import Settings
from models.database import Database
from tests.api.service import SPEC, Api, running_api, served, settings_for

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def api(shared_api: Api) -> Api:
    """Nothing that a test here stores is in the way of another."""
    return shared_api


def _is_problem(response: Any, status: int, slug: str) -> dict[str, Any]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-content-type-options"] == "nosniff"
    problem = response.json()
    assert (problem["status"], problem["type"]) == (status, f"/problems/{slug}")
    return problem


def test_unknown_paths_and_methods(api: Api) -> None:
    for path in ("/nowhere", "/v1/nowhere", "/v1/experiments/", "/docs/assets/x"):
        _is_problem(api.get(path), 404, "not-found")
    for method, path, allowed in (
        ("DELETE", "/v1/experiments", {"GET", "POST", "HEAD", "OPTIONS"}),
        ("GET", "/v1/federations/proposals", {"POST", "OPTIONS"}),
        ("POST", "/health/live", {"GET", "HEAD", "OPTIONS"}),
    ):
        response = api.request(method, path)
        _is_problem(response, 405, "method-not-allowed")
        assert set(response.headers["allow"].split(", ")) == allowed
        for verb in allowed:
            assert api.request(verb, path).status_code != 405


def test_an_unexpected_failure_reveals_nothing_but_where_to_look(api, monkeypatch):
    broken = Mock(side_effect=RuntimeError("secret detail"))
    monkeypatch.setattr("api.routers.experiments.find_experiment", broken)
    with structlog.testing.capture_logs() as logged:
        response = api.get("/v1/experiments/x")
    problem = _is_problem(response, 500, "internal-error")
    assert "secret" not in response.text
    assert problem["instance"].startswith("urn:uuid:")
    # A command shows the detail alone.
    assert problem["instance"] in problem["detail"]
    [failure] = [entry for entry in logged if entry["event"] == "request failed"]
    assert failure["instance"] == problem["instance"]
    assert "secret detail" in str(failure["exc_info"])


def test_a_database_that_is_away_is_reported(tmp_path: Path, sqlite_url: str) -> None:
    with running_api(settings_for(sqlite_url, tmp_path)) as api:
        assert api.get("/health/ready", key=None).json() == {"status": "ok"}
        resources = api.client.app.state.resources
        resources.database = Database("postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1")
        response = api.get("/v1/experiments")
        _is_problem(response, 503, "unavailable")
        assert int(response.headers["retry-after"]) > 0
        _is_problem(api.get("/health/ready"), 503, "unavailable")
        assert api.get("/health/live").json() == {"status": "ok"}


# -- health ----------------------------------------------------------------------------------------


def test_not_ready_on_another_schema(empty_database_url: str, tmp_path: Path) -> None:
    with TestClient(create_app(settings_for(empty_database_url, tmp_path))) as client:
        problem = _is_problem(client.get("/health/ready"), 503, "unavailable")
        assert "fedaudit migrate" in problem["detail"]
        assert client.get("/health/live").status_code == 200


def test_an_api_without_a_database_names_no_folder_to_anyone(tmp_path: Path) -> None:
    with (
        structlog.testing.capture_logs() as logged,
        TestClient(create_app(Settings(data_dir=tmp_path / "moved"))) as client,
    ):
        problem = _is_problem(client.get("/health/ready"), 503, "unavailable")
    assert "fedaudit migrate" in problem["detail"]
    assert str(tmp_path) not in json.dumps(problem)
    assert f"no service keeps its data in {tmp_path / 'moved'}" in str(logged)


def test_nothing_is_written_on_the_schema_of_another_version(sqlite_url, tmp_path, monkeypatch):
    monkeypatch.setattr("api.shared.security.SCHEMA_SECONDS", 0.0)
    with running_api(settings_for(sqlite_url, tmp_path)) as api:
        assert api.post("/v1/experiments", json=SPEC).status_code == 202
        api.change(text("UPDATE alembic_version SET version_num = '0001'"))
        for call in ("/v1/experiments", "/v1/ledgers"):
            problem = _is_problem(api.post(call, json=SPEC), 503, "unavailable")
            assert "fedaudit migrate" in problem["detail"]
        assert api.get("/v1/experiments").status_code == 200


# -- bodies that are too large ---------------------------------------------------------------------

LARGE = 30 * 2**20


@pytest.fixture(scope="module")
def live(shared_api: Api) -> Iterator[tuple[Api, str]]:
    """The API, and the address of a real server on the same database."""
    with served(shared_api) as url:
        yield shared_api, url


def test_a_client_that_sends_all_before_it_reads_gets_the_answer(live: tuple[Api, str]) -> None:
    api, url = live
    request = urllib.request.Request(
        f"{url}/v1/experiments",
        data=b" " * (20 * 2**20),
        headers={**JSON, "Authorization": f"Bearer {api.key}"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with pytest.raises(urllib.error.HTTPError) as caught:
        opener.open(request, timeout=30)
    assert caught.value.code == 413
    assert json.loads(caught.value.read())["status"] == 413


def test_the_largest_body_is_still_taken_and_a_larger_one_refused(live: tuple[Api, str]) -> None:
    api, url = live
    body = json.dumps(SPEC).encode()
    content = body + b" " * (api.settings.max_body_bytes - len(body))
    with http(url, api.key) as client:
        assert client.post("/v1/experiments", content=content, headers=JSON).status_code == 202
        before = api.counts()
        # Without a length, as the second, it is refused while it is read.
        for larger in (content + b" ", itertools.repeat(b" " * 2**16, LARGE // 2**16)):
            response = client.post("/v1/experiments", content=larger, headers=JSON)
            _is_problem(response, 413, "payload-too-large")
    headers = {**JSON, "Content-Length": "9" * 5000}
    response = api.post("/v1/experiments", content=b"{}", headers=headers)
    _is_problem(response, 413, "payload-too-large")
    assert api.counts() == before


def test_a_full_disk_is_not_called_a_database_that_is_away(api, monkeypatch):
    full = "the database's disk is full"
    for said, stated in (
        ("database or disk is full", full),
        ("could not extend file: No space left on device", full),
        ("connection refused", "the database does not answer"),
    ):
        failing = Mock(side_effect=OperationalError("INSERT", {}, Exception(said)))
        monkeypatch.setattr("api.routers.experiments.find_experiment", failing)
        answer = api.get("/v1/experiments/x")
        assert (answer.status_code, answer.json()["detail"]) == (503, stated)
        assert answer.headers["retry-after"] == "2"


# -- what the log says of requests: their ids, and nothing that they asked for --------------------

Lines = Callable[[], list[dict[str, object]]]


@pytest.fixture
def lines(restored_logs: None) -> Lines:
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


def test_an_answer_has_an_id_which_is_its_own_unless_a_sane_one_was_sent(api: Api) -> None:
    found = [
        api.get(path, headers=sent).headers["x-request-id"]
        for path in ("/v1/experiments", "/v1/nowhere", "/health/live", "/sign-in")
        for odd in (None, "short", "x" * 65, "two words", "<script>", "a;b=c;d=e")
        for sent in [{} if odd is None else {"X-Request-ID": odd}] * 2
    ]
    assert len(set(map(uuid.UUID, found))) == len(found)
    # A problem is the instance that its request is.
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


# -- bodies that never come, or come a byte at a time ---------------------------------------------


@pytest.mark.parametrize(
    ("path", "kind", "trickle"),
    [
        ("/v1/federations", "multipart/form-data; boundary=x", False),
        ("/v1/experiments", "application/json", True),
    ],
)
def test_a_slow_body_is_cut_off(sqlite_url, tmp_path, monkeypatch, path, kind, trickle):
    monkeypatch.setattr(middleware, "_QUIET_SECONDS", 0.5)
    monkeypatch.setattr(middleware, "_LEISURE_SECONDS", 1.0)
    with running_api(settings_for(sqlite_url, tmp_path)) as api, served(api) as url:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {api.key}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: 5000\r\n\r\n"
        )
        where = urlsplit(url)
        with socket.create_connection((where.hostname, where.port or 80)) as client:
            client.sendall(head.encode() + b"--x\r\n")
            client.settimeout(0.2 if trickle else 30)
            answer = answer_of(client, bytes_more=100 if trickle else 0)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"application/problem+json" in answer
        assert b"the body came too slowly" in answer


def answer_of(client: socket.socket, *, bytes_more: int) -> bytes:
    """What came until the connection was closed, with a byte sent for each timeout."""
    received = b""
    while True:
        try:
            part = client.recv(65536)
        except TimeoutError:
            bytes_more -= 1
            assert bytes_more >= 0, "the body goes on for ever"
            client.sendall(b" ")
            continue
        if not part:
            return received
        received += part
