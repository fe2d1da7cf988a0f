"""Connections that say nothing, and more of them than there is room for."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic, sleep
from typing import Any

import pytest
import uvicorn

from api.http.connections import HEALTH_PLACES, bounded_protocol

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
    with socket.create_server(("127.0.0.1", 0)) as listener:
        protocol = bounded_protocol(MOST, header_seconds=header_seconds)
        server = uvicorn.Server(
            uvicorn.Config(hello, http=protocol, lifespan="off", log_config=None)
        )
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        deadline = monotonic() + 30
        while not server.started and monotonic() < deadline:
            sleep(0.01)
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
