"""Connections that say nothing, and more of them than there is room for."""

import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from unittest.mock import patch

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient

from api.app import create_app
from api.http import connections
from api.http.connections import HEALTH_PLACES, bounded_protocol
from infrastructure.settings import SettingsError, load_settings
from tests.api.service import Api, finished
from tests.house import ROOT
from tests.processes import completed
from tests.waiting import wait_until

HEADER_SECONDS = 0.5
MOST = 4
WHOLE = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """A server with room for four connections."""
    with served() as found:
        yield found


@contextmanager
def served(header_seconds: float = HEADER_SECONDS) -> Iterator[tuple[str, int]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        patch.object(connections, "HEADER_SECONDS", header_seconds),
    ):
        bounded: dict[str, Any] = {"http": bounded_protocol(MOST), "timeout_keep_alive": 1}
        server = uvicorn.Server(uvicorn.Config(hello, lifespan="off", log_config=None, **bounded))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        wait_until(lambda: server.started, "the server")
        yield listener.getsockname()
        server.should_exit = True
        thread.join(10)


def everything(client: socket.socket) -> bytes:
    """What comes until the other side closes."""
    received = b""
    while part := client.recv(65536):
        received += part
    return received


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost:"], ids=["silent", "half"])
@pytest.mark.parametrize("first", [False, True], ids=["at-once", "after-a-request"])
def test_a_header_that_does_not_come_ends_the_connection(address, sent, first):
    with socket.create_connection(address, timeout=20) as client:
        if first:
            client.sendall(WHOLE)
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
            sleep(0.1)
        client.sendall(sent)
        assert b"HTTP/1.1 4" not in everything(client)


def test_a_header_byte_by_byte_gains_no_time(address: tuple[str, int]) -> None:
    began = monotonic()
    with socket.create_connection(address, timeout=20) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        while still_open(client) and monotonic() - began < 20:
            sleep(0.05)
    assert monotonic() - began < 20


def still_open(client: socket.socket) -> bool:
    """Send one byte more, and see whether the other side has closed."""
    try:
        client.sendall(b"x")
        client.settimeout(0.05)
        return client.recv(1) != b""
    except TimeoutError:
        return True
    except OSError:
        return False


def test_beyond_the_bound_only_health_is_answered() -> None:
    with served(20.0) as address, ExitStack() as held:
        for _ in range(MOST):
            held.enter_context(socket.create_connection(address, timeout=20))
        asked = (WHOLE, b"")  # The second says nothing until newer ones need its place.
        clients = [socket.create_connection(address, timeout=20) for _ in asked]
        for client, sent in zip(clients, asked, strict=True):
            held.enter_context(client).sendall(sent)
        answers = [everything(clients[0])]
        for _ in range(2 * HEALTH_PLACES):
            held.enter_context(socket.create_connection(address, timeout=20))
        health = held.enter_context(socket.create_connection(address, timeout=20))
        health.sendall(WHOLE.replace(b"GET /", b"GET /health/live"))
        assert health.recv(65536).startswith(b"HTTP/1.1 200 ")
        answers.append(everything(clients[1]))
    for answer in answers:
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 5" in head
        assert b"content-type: application/problem+json" in head
        assert b"connection: close" in head
        assert f"content-length: {len(body)}".encode() in head
        problem = json.loads(body)
        assert problem.pop("instance").startswith("urn:uuid:")
        assert problem == {
            "type": "/problems/unavailable",
            "title": "The service cannot answer just now",
            "status": 503,
            "detail": "there are too many connections",
        }


# -- whose word about the client's address and scheme the process believes ------------------------


WRONG = "fa_" + "0" * 43


@pytest.fixture
def environment(api: Api) -> dict[str, str]:
    """Of a process on the database of `api`, whose key is `KEY`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDAUDIT_")}
    return {
        **kept,
        "FEDAUDIT_DATABASE_URL": api.settings.database_url,
        "FEDAUDIT_BROKER_URL": api.settings.broker_url,
        "FEDAUDIT_DATA_DIR": str(api.settings.data_dir),
        "KEY": api.key,
    }


@contextmanager
def running_process(
    environment: dict[str, str], log: Path
) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """The API as a process, once it is ready, and a client of it; beside the log is its output."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        log.open("wb") as errors,
        log.with_suffix(".out").open("wb") as output,
    ):
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "api", "--fd", str(listener.fileno())],
            env=environment,
            pass_fds=[listener.fileno()],
            stdout=output,
            stderr=errors,
        )
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
            wait_until(lambda: http.get("/health/ready").status_code == 200, "the API")
            yield process, http
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def api_process(environment: dict[str, str], log: Path) -> Iterator[httpx.Client]:
    with running_process(environment, log) as (_, http):
        yield http


def sign_in(http: Any, key: str, **forwarded: str) -> Any:
    headers = {f"X-Forwarded-{name.title()}": value for name, value in forwarded.items()}
    return http.post("/sign-in", data={"key": key, "next": "/"}, headers=headers)


def test_forwarded_headers_are_believed_from_named_proxies_alone(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    for proxies, believed in (("10.0.0.0/8", False), ("10.0.0.1, 127.0.0.0/8", True)):
        settings = api.settings.model_copy(update={"trusted_proxies": proxies})
        app = create_app(settings)
        with TestClient(app, client=("127.0.0.1", 1), follow_redirects=False) as http:
            cookie = sign_in(http, api.key, proto="https").headers["set-cookie"]
            assert ("; Secure" in cookie) is believed
            capsys.readouterr()
            assert sign_in(http, WRONG, **{"for": "203.0.113.7"}).status_code == 401
        assert ("203.0.113.7" in capsys.readouterr().err) is believed


def test_a_process_believes_nobody_and_ends_with_streams_open(
    environment: dict[str, str], api: Api, tmp_path: Path
) -> None:
    headers = {"Authorization": f"Bearer {environment['KEY']}"}
    # What uvicorn itself would listen to changes nothing.
    known, log = {**environment, "FORWARDED_ALLOW_IPS": "*"}, tmp_path / "api.log"
    with running_process(known, log) as (process, http):
        assert "; Secure" not in sign_in(http, known["KEY"], proto="https").headers["set-cookie"]
        assert sign_in(http, WRONG, **{"for": "203.0.113.7"}).status_code == 401
        with http.stream(
            "GET", f"/v1/experiments/{api.submit()['id']}/events", headers=headers
        ) as one:
            lines = one.iter_lines()
            assert next(lines) == "event: status.changed"
            process.send_signal(signal.SIGTERM)
            # The stream ends well instead of being cut off.
            assert "id: 1" in list(lines)
        assert process.wait(30) in (0, -signal.SIGTERM)
    assert log.with_suffix(".out").read_bytes() == b""
    said = log.read_text()
    assert "Finished server process" in said
    assert "Traceback" not in said
    assert "203.0.113.7" not in said


def test_a_proxy_that_is_no_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for proxies in ("proxy.example", "10.0.0.1/8", "*"):
        monkeypatch.setenv("FEDAUDIT_TRUSTED_PROXIES", proxies)
        with pytest.raises(
            SettingsError, match=r"FEDAUDIT_TRUSTED_PROXIES: .*(not appear|host bits)"
        ):
            load_settings()


# -- compressed answers, HEAD and OPTIONS ---------------------------------------------------------


def test_large_answers_come_compressed_and_pages_streams_and_bundles_do_not(api: Api) -> None:
    below = f"/v1/experiments/{finished(api)}"
    path = f"{below}/report"
    plain = api.get(path, headers={"Accept-Encoding": "identity"})
    with api.client.stream(
        "GET", path, headers={"Authorization": f"Bearer {api.key}", "Accept-Encoding": "gzip"}
    ) as answer:
        sent = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert len(sent) < len(plain.content) / 2
    assert json.loads(gzip.decompress(sent)) == plain.json()
    assert "Accept-Encoding" in answer.headers["vary"]
    for path in ("/sign-in", f"{below}/events", f"{below}/bundle"):
        answer = api.get(path, headers={"Accept-Encoding": "gzip"})
        assert (answer.status_code, "content-encoding" in answer.headers) == (200, False)


def test_head_answers_as_get_without_a_body(api: Api) -> None:
    below = f"/v1/experiments/{finished(api)}"
    for path in (
        *("/health/live", "/openapi.json", "/sign-in", "/v1/experiments"),
        *(f"{below}/{rest}" for rest in ("report.html", "rounds.csv", "events", "nothing")),
    ):
        got, asked = api.get(path), api.request("HEAD", path)
        assert (asked.status_code, asked.content) == (got.status_code, b""), path
        for name in ("content-type", "content-length", "cache-control"):
            assert asked.headers.get(name) == got.headers.get(name)
    # That of a stream that goes on ends.
    asked = api.request("HEAD", f"/v1/experiments/{api.submit()['id']}/events")
    assert asked.headers["content-type"].startswith("text/event-stream")
    assert api.client.app.state.resources.streams.open == 0  # type: ignore[attr-defined]


def test_options_names_the_methods_of_every_path(api: Api) -> None:
    paths = api.get("/openapi.json", key=None).json()["paths"]
    pages = {"/": ["get"], "/federations/new": ["get", "post"], "/docs/assets/x.js": ["get"]}
    for path, methods in {**paths, **pages}.items():
        answer = api.request("OPTIONS", re.sub(r"{\w+}", "0", path), key=None)
        expected = {*map(str.upper, methods), "OPTIONS", *(["HEAD"] if "get" in methods else [])}
        assert set(answer.headers["allow"].split(", ")) == expected, path
        assert (answer.status_code, answer.content) == (204, b"")
    assert api.request("OPTIONS", "/v1/nowhere").status_code == 404


# -- what the API loads: nothing heavy to start with, and to serve no torch -----------------------

HEAVY = (
    *("torch", "pandas", "pyarrow", "celery", "workers", "matplotlib", "sklearn", "fairlearn"),
    "scipy.special",
)
PROGRAM = f"""
import pathlib, sys, api.__main__
from api.app import create_app
from infrastructure.settings import Settings
create_app(Settings()).openapi()
print([name for name in sys.modules if name in {HEAVY!r}])
sys.modules.update(dict.fromkeys(["torch", "fairlearn", "pandas", "sklearn"]))
import workers.sweeper
from tests.api.service import *
with running_api(settings_for(sys.argv[1], pathlib.Path(sys.argv[2]))) as api:
    id_ = finished(api)
    for rest in ("", "/rounds", "/privacy-ledger", "/fairness", "/report.html",
                 "/report/verification", "/events"):
        assert api.get(f"/v1/experiments/{{id_}}{{rest}}").status_code == 200, rest
print("served")
"""


def test_starting_serving_and_sweeping_load_nothing_heavy(tmp_path: Path, sqlite_url: str) -> None:
    done = completed([sys.executable, "-c", PROGRAM, sqlite_url, str(tmp_path)], cwd=ROOT)
    loaded, *_, served = done.stdout.splitlines() or ["", done.stderr]
    assert (loaded, served) == ("[]", "served"), done.stderr
