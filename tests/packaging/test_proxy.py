"""The proxy that compose puts in front of the API: its configuration, and nginx with it."""

import os
import re
import shutil
import socket
import ssl
import subprocess
from contextlib import ExitStack
from ipaddress import ip_network
from pathlib import Path

import httpx
import pytest

from api.app import uploads_of
from benchmarks.servers import free_port
from infrastructure.settings import Settings
from tests.api.conftest import api
from tests.api.http.test_connections import api_process, environment, sign_in
from tests.api.service import SPEC
from tests.infrastructure.certificates import self_signed
from tests.packaging.compose import ROOT, resolved_services
from tests.waiting import listens, wait_until

__all__ = ["api", "environment"]
CONFIGURATION = (ROOT / "deploy" / "nginx.conf").read_text()
_UNITS = {"m": 2**20, "g": 2**30}


def of_location(path: str) -> str:
    """The block of one path, written out or as a pattern."""
    blocks = re.findall(r"location (?:= (\S+)|~ (\S+)) \{(.*?)\}", CONFIGURATION, re.DOTALL)
    [found] = [
        block
        for exact, pattern, block in blocks
        if exact == path or (pattern and re.search(pattern, path))
    ]
    return found


def largest(text: str) -> int:
    [(number, unit)] = re.findall(r"client_max_body_size (\d+)([mg]);", text)
    return int(number) * _UNITS[unit]


def test_bodies_that_the_api_takes_pass(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    usual = CONFIGURATION.split("location")[0]
    assert largest(usual) > settings.max_body_bytes
    for path, (_, most) in uploads_of(settings).items():
        assert largest(of_location(path)) > most, path
        assert "proxy_request_buffering off;" in of_location(path), path


def test_compose_gives_it_what_the_configuration_names() -> None:
    services = resolved_services()
    proxy, api = services["proxy"], services["api"]
    named = set(re.findall(r"/run/secrets/([a-z-]+)", CONFIGURATION))
    assert named == {one["source"] for one in proxy["secrets"]}
    [mounted] = proxy["volumes"]
    assert mounted["source"] == str(ROOT / "deploy" / "nginx.conf")
    assert mounted["target"] == "/etc/nginx/nginx.conf"
    listening = set(re.findall(r"listen (\d+)", CONFIGURATION))
    assert listening == {str(one["target"]) for one in proxy["ports"]}
    [server] = re.findall(r"server (\w+):(\d+);", CONFIGURATION)
    assert server == ("api", api["command"][-1])
    assert (proxy["cap_drop"], proxy["user"]) == (["ALL"], "101:101")
    # The example trusts the networks that Docker gives containers, or no cookie is Secure.
    example = (ROOT / ".env.example").read_text()
    [proxies] = re.findall(r"^TRUSTED_PROXIES=(.+)$", example, re.MULTILINE)
    assert ip_network("172.17.0.0/16").subnet_of(ip_network(proxies.split(",")[0]))


def started(configuration: str, folder: Path, port: int) -> subprocess.Popen[bytes]:
    """nginx, once it takes connections."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    file = folder / "nginx.conf"
    file.write_text(configuration)
    # Workers of a master that is root would be somebody else, who cannot enter the folder.
    user = " user root;" if os.geteuid() == 0 else ""
    process = subprocess.Popen(
        [nginx, "-c", str(file), "-e", str(folder / "error.log"), "-g", f"daemon off;{user}"]
    )
    wait_until(lambda: process.poll() is not None or listens(port), "nginx to listen")
    assert process.poll() is None, (folder / "error.log").read_text()
    return process


@pytest.fixture
def proxied(environment, tmp_path):
    """A client of the API behind nginx, the port, a key and where nginx logs.

    Its time limits are shortened.
    """
    port, plain = free_port(), free_port()
    cert, key = self_signed(tmp_path, "127.0.0.1")
    known = {**environment, "FEDAUDIT_TRUSTED_PROXIES": "127.0.0.1"}
    with api_process(known, tmp_path / "api.log") as direct:
        configuration = CONFIGURATION
        for written, here in (
            ("/tmp/", f"{tmp_path}/"),
            ("/run/secrets/tls-certificate", str(cert)),
            ("/run/secrets/tls-key", str(key)),
            ("server api:8000;", f"server 127.0.0.1:{direct.base_url.port};"),
            ("listen 8443", f"listen 127.0.0.1:{port}"),
            ("listen 8080", f"listen 127.0.0.1:{plain}"),
            ("/dev/stdout", str(tmp_path / "access.log")),
            ("/dev/stderr warn", f"{tmp_path}/error.log info"),
            ("client_header_timeout 10s", "client_header_timeout 1s"),
            ("limit_conn address 100", "limit_conn address 5"),
            ("worker_processes auto", "worker_processes 1"),
        ):
            assert written in configuration
            configuration = configuration.replace(written, here)
        process = started(configuration, tmp_path, port)
        try:
            trusted = ssl.create_default_context(cafile=str(cert))
            with httpx.Client(
                base_url=f"https://127.0.0.1:{port}", verify=trusted, trust_env=False, timeout=60
            ) as http:
                yield http, port, known["KEY"], tmp_path
        finally:
            process.terminate()
            process.wait(30)


def test_nginx_serves_the_api_by_it(proxied: tuple[httpx.Client, int, str, Path]) -> None:
    http, port, key, log = proxied
    assert http.get("/health/ready").status_code == 200
    # It is the proxy that says what the scheme is, whatever the client does.
    signed = sign_in(http, key, proto="http")
    assert signed.status_code == 303, signed.text
    assert "; Secure" in signed.headers["set-cookie"]
    # The API's own refusal of a body comes through.
    large = http.post(
        "/v1/experiments",
        content=b"x" * (1 << 20 | 1),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    assert (large.status_code, large.json()["type"]) == (413, "/problems/payload-too-large")
    # Events come while their stream goes on, and one address holds no more than its share.
    allowed = {"Authorization": f"Bearer {key}"}
    sent = http.post("/v1/experiments", json=SPEC, headers=allowed)
    assert sent.status_code == 202, sent.text
    path = f"/v1/experiments/{sent.json()['id']}/events"
    with ExitStack() as streams:
        # Kept: a stream ends with the iterator over its lines.
        reading = [
            streams.enter_context(http.stream("GET", path, headers=allowed)).iter_lines()
            for _ in range(5)
        ]
        assert all(next(lines) for lines in reading)
        assert http.get("/health/live").status_code == 429
    # Half a header ends with its connection, long before the API would end it.
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        half = ssl._create_unverified_context().wrap_socket(raw)
        half.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n")
        try:
            answer = half.recv(100)
        except ConnectionResetError:
            answer = b""
        assert b"HTTP/1.1 200" not in answer
    assert "client timed out" in (log / "error.log").read_text()
