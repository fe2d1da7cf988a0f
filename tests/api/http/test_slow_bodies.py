"""Bodies that never come, or come a byte at a time."""

import socket
from time import monotonic, sleep
from urllib.parse import urlsplit

import pytest

from api.http import middleware
from tests.api.service import running_api, served, settings_for


@pytest.mark.parametrize(("upload", "trickle"), [(True, False), (False, True)])
def test_a_slow_body_is_cut_off(sqlite_url, tmp_path, monkeypatch, upload, trickle):
    monkeypatch.setattr(middleware, "_QUIET_SECONDS", 1.0)
    monkeypatch.setattr(middleware, "_LEISURE_SECONDS", 2.0)
    path, kind = (
        ("/v1/federations", "multipart/form-data; boundary=x")
        if upload
        else ("/v1/experiments", "application/json")
    )
    with running_api(settings_for(sqlite_url, tmp_path)) as api, served(api) as url:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {api.key}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: 5000\r\n\r\n"
        )
        where = urlsplit(url)
        with socket.create_connection((where.hostname, where.port or 80), timeout=30) as client:
            client.sendall(head.encode() + b"--x\r\n")
            began = monotonic()
            if trickle:
                client.settimeout(0.3)
            answer = answer_of(client, trickle=trickle)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"application/problem+json" in answer
        assert b"the body came too slowly" in answer
        assert monotonic() - began < 20


def answer_of(client: socket.socket, *, trickle: bool) -> bytes:
    """What came until the connection was closed."""
    received = b""
    while True:
        try:
            part = client.recv(65536)
        except TimeoutError:
            if not trickle:
                raise
            client.sendall(b" ")
            continue
        if not part:
            return received
        received += part
        sleep(0)
