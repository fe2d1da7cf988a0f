"""A receiver of webhooks: a real server that answers as it is told, and remembers."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook


@dataclass
class Receiver:
    """What arrived, and what is answered: each of `answers` once, and 204 from then on.

    None is answered when `released` is set, with 204.
    """

    url: str = ""
    answers: list[int | None] = field(default_factory=list)
    """Sent as `Retry-After` with every answer."""
    released: threading.Event = field(default_factory=threading.Event)
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def verified(self, secret: str) -> list[dict[str, Any]]:
        """Every payload, as the library of Standard Webhooks verifies it."""
        return [Webhook(secret).verify(body, headers) for headers, body in self.received]

    @property
    def ids(self) -> list[str]:
        """The `webhook-id` of each."""
        return [headers["webhook-id"] for headers, _ in self.received]


@contextmanager
def receiving(*, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver on a free port of this machine."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = receiver.answers.pop(0) if receiver.answers else 204
            receiver.received.append(
                ({name.lower(): value for name, value in self.headers.items()}, body)
            )
            if status is None:
                receiver.released.wait()
                status = 204
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"{receiver.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
