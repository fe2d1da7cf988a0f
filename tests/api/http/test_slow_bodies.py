"""Bodies that never come, or come a byte at a time."""

import socket
from urllib.parse import urlsplit

import pytest

from api.http import middleware
from tests.api.service import running_api, served, settings_for


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
