"""Several API processes behind one port: what they share, and that they live and end together."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import httpx
import psutil
import pytest

from api import metrics as names
from benchmarks.served_api import make_key
from models.database import Database
from tests.api.metrics.scrapes import samples
from tests.api.service import SCOPES, SPEC
from tests.waiting import wait_until

STOP_SECONDS = 10


@dataclass
class Pair:
    """Two API processes and their parent."""

    parent: subprocess.Popen[str]
    http: httpx.Client
    database: Database

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.parent.pid).children()

    def suspend(self, place: int) -> None:
        """Not while it writes, as it may after its answer: nobody else could until it goes on."""
        with self.database.write():
            self.children()[place].suspend()

    @contextmanager
    def only(self, place: int) -> Iterator[None]:
        """While the block runs one of the two answers, because the other is suspended."""
        self.suspend(1 - place)
        try:
            yield
        finally:
            self.children()[1 - place].resume()


@pytest.fixture
def pair(sqlite_url: str, tmp_path: Path) -> Iterator[Pair]:
    database = Database(sqlite_url)
    _, key = make_key(database, "hospital", SCOPES, name="tests")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDAUDIT_")}
    environment = {
        **kept,
        "FEDAUDIT_DATABASE_URL": sqlite_url,
        "FEDAUDIT_BROKER_URL": f"filesystem://{tmp_path}/queue",
        "FEDAUDIT_DATA_DIR": str(tmp_path),
        "FEDAUDIT_API_PROCESSES": "2",
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        parent = subprocess.Popen(
            [sys.executable, "-P", "-m", "api", "--fd", str(listener.fileno())],
            env=environment,
            pass_fds=[listener.fileno()],
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    # No connection is kept: each request goes to whichever process takes it.
    limits = httpx.Limits(max_keepalive_connections=0)
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(
        base_url=url, headers=headers, limits=limits, timeout=60, trust_env=False
    ) as http:
        found = Pair(parent, http, database)
        try:
            wait_until(lambda: len(found.children()) == 2, pause=0.1)
            for place in (0, 1):
                with found.only(place):
                    assert http.get("/health/ready").status_code == 200
            yield found
        finally:
            if parent.poll() is None:
                parent.kill()
            if parent.stderr is not None and not parent.stderr.closed:
                parent.communicate()
            database.dispose()


def test_they_share_what_counts_live_and_end_together(pair: Pair) -> None:
    http = pair.http
    same = {"Idempotency-Key": "once"}
    made = []
    for place in (0, 1):
        with pair.only(place):
            made.append(http.post("/v1/experiments", json=SPEC, headers=same).json()["id"])
    assert made[0] == made[1]
    counted = {"method": "POST", "route": "/v1/experiments", "status": "2xx"}
    for place in (0, 1):
        with pair.only(place):
            found = samples(http.get("/metrics").text)
        assert found[f"{names.REQUESTS}_count", frozenset(counted.items())] == 2
        assert found[names.DATABASE_UP, frozenset()] == 1
    # What is done by one process is news on a stream of the other.
    with pair.only(0):
        stream = http.stream("GET", f"/v1/experiments/{made[0]}/events")
        lines = stream.__enter__().iter_lines()
        assert next(lines) == "event: status.changed"
        pair.children()[1].resume()
        pair.suspend(0)
        assert http.post(f"/v1/experiments/{made[0]}/cancel").is_success
        pair.children()[0].resume()
        deadline = monotonic() + 90  # what keeps a stream alive are lines as well
        while '"cancelled"' not in next(lines):
            assert monotonic() < deadline, "the stream has no news of it"
    stream.__exit__(None, None, None)
    # One that dies is replaced, and the other answers meanwhile.
    [first, second] = pair.children()
    first.kill()
    assert http.get("/health/live").status_code == 200
    wait_until(lambda: second in pair.children() and len(pair.children()) == 2, pause=0.1)
    children = pair.children()
    with http.stream("GET", f"/v1/experiments/{made[0]}/events"):
        pair.parent.send_signal(signal.SIGTERM)
        assert pair.parent.wait(STOP_SECONDS + 5) == 0
    assert not any(child.is_running() for child in children)
    assert "Traceback" not in pair.parent.communicate()[1]
