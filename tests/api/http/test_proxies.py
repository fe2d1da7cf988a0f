"""Whose word about the client's address and scheme the process believes."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest

from infrastructure.settings import SettingsError, load_settings
from tests.api.service import running_api, settings_for

WRONG = "fa_" + "0" * 43


@pytest.fixture
def environment(tmp_path: Path, sqlite_url: str) -> dict[str, str]:
    """Of a process on a database with a key, which is `KEY`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDAUDIT_")}
    with running_api(settings_for(sqlite_url, tmp_path)) as api:
        return {
            **kept,
            "FEDAUDIT_DATABASE_URL": api.settings.database_url,
            "FEDAUDIT_BROKER_URL": api.settings.broker_url,
            "FEDAUDIT_DATA_DIR": str(api.settings.data_dir),
            "KEY": api.key,
        }


@contextmanager
def api_process(environment: dict[str, str], log: Path) -> Iterator[httpx.Client]:
    """The API as a process, once it is ready, and a client of it."""
    with socket.create_server(("127.0.0.1", 0)) as listener, log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "api", "--fd", str(listener.fileno())],
            env=environment,
            pass_fds=[listener.fileno()],
            stdout=output,
            stderr=output,
        )
        port = listener.getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as http:
            deadline = monotonic() + 60
            while monotonic() < deadline and process.poll() is None:
                if http.get("/health/ready").status_code == 200:
                    break
                sleep(0.05)
            yield http
    finally:
        process.terminate()
        process.wait(30)


def sign_in(http: httpx.Client, key: str, **forwarded: str) -> httpx.Response:
    headers = {f"X-Forwarded-{name.title()}": value for name, value in forwarded.items()}
    return http.post("/sign-in", data={"key": key, "next": "/"}, headers=headers)


@pytest.mark.parametrize(
    ("proxies", "believed"), [("", False), ("10.0.0.0/8", False), ("10.0.0.1, 127.0.0.0/8", True)]
)
def test_forwarded_headers_are_believed_from_named_proxies_alone(
    environment: dict[str, str], tmp_path: Path, proxies: str, believed: bool
) -> None:
    # What uvicorn itself would listen to changes nothing.
    known = {**environment, "FEDAUDIT_TRUSTED_PROXIES": proxies, "FORWARDED_ALLOW_IPS": "*"}
    log = tmp_path / "api.log"
    with api_process(known, log) as http:
        cookie = sign_in(http, known["KEY"], proto="https").headers["set-cookie"]
        assert ("; Secure" in cookie) is believed
        assert sign_in(http, WRONG, **{"for": "203.0.113.7"}).status_code == 401
    assert ("203.0.113.7" in log.read_text()) is believed


def test_a_proxy_that_is_no_address_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for proxies in ("proxy.example", "10.0.0.1/8", "*"):
        monkeypatch.setenv("FEDAUDIT_TRUSTED_PROXIES", proxies)
        with pytest.raises(SettingsError, match=r"FEDAUDIT_TRUSTED_PROXIES: .* neither"):
            load_settings()
