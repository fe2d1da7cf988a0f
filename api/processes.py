"""Serve by several processes behind one port, each with a bounded number of connections.

The parent binds the port and serves nothing. Each process accepts connections from the socket that
it inherits, and is `python -P -m api --fd N` as any other.
"""

import asyncio
import ctypes
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from time import monotonic
from typing import Any

import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.http.observation import SHARED_FOLDER, name_request
from api.http.problems import problem_response, unavailable

log = structlog.get_logger()

HEADER_SECONDS = 15.0
"""How long the header of a request may take to arrive."""
_SPARE_DESCRIPTORS = 128
"""Kept for files, the database and the broker."""
CHILD = "FEDAUDIT_API_CHILD"
"""Set for a process that serves, so that it does not start others."""
_BACKLOG = 128
_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 7.0
"""Twice what a process gives its own requests: the service ends within ten seconds."""
_TEND_SECONDS = 0.2
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 30.0
_STEADY_SECONDS = 60.0


def max_connections(wanted: int) -> int:
    """The number that was wanted, or fewer where the process may not open so many files."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - _SPARE_DESCRIPTORS))


def bounded_protocol(most: int, *, header_seconds: float = HEADER_SECONDS) -> type[H11Protocol]:
    """uvicorn's protocol with bounds; beyond them a connection is answered 503 and closed. uvicorn
    bounds requests in progress and connections between requests, and neither counts a connection
    that sends half a header, or nothing."""

    class _Bounded(H11Protocol):
        _watch: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.write(_too_many())
                transport.close()
            else:
                self._watch_header()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch_header()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            super().connection_lost(exc)

        def _watch_header(self) -> None:
            """A request in progress has limits of its own; the next header has not begun."""
            if self._answering():
                self._unwatch()
            elif self._watch is None:
                self._watch = self.loop.call_later(header_seconds, self._give_up)

        def _give_up(self) -> None:
            self._watch = None
            if not self._answering():
                self.transport.close()

        def _unwatch(self) -> None:
            if self._watch is not None:
                self._watch.cancel()
                self._watch = None

        def _answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

    return _Bounded


def _too_many() -> bytes:
    """The bytes of the answer to a connection too many, which also ends it."""
    scope: dict[str, Any] = {}
    name_request(scope)
    error = unavailable("there are too many connections", retry_seconds=5)
    response = problem_response(error, scope)
    head = [
        f"HTTP/1.1 {response.status_code} {HTTPStatus(response.status_code).phrase}".encode(),
        *(name + b": " + value for name, value in response.raw_headers),
        b"connection: close",
    ]
    return b"\r\n".join(head) + b"\r\n\r\n" + bytes(response.body)


def serve_by(processes: int, *, host: str, port: int, descriptor: int | None) -> int:
    """Serve by so many processes until a signal asks for the stop; returns the exit code.
    `descriptor`: of a listening socket that is already open, instead of the address."""
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    with (
        _listener(host, port, descriptor) as listener,
        tempfile.TemporaryDirectory(prefix="fedaudit-metrics-") as folder,
    ):
        environment = {**os.environ, CHILD: "1", SHARED_FOLDER: folder}
        children = [_Child(listener.fileno(), environment) for _ in range(processes)]
        log.info("API processes started", processes=processes)
        while not stopping.wait(_TEND_SECONDS):
            for child in children:
                child.tend()
        for child in children:
            child.ask_to_end()
        deadline = monotonic() + _GRACE_SECONDS
        for child in children:
            child.end(deadline)
    return 0


def _listener(host: str, port: int, descriptor: int | None) -> socket.socket:
    if descriptor is not None:
        return socket.socket(fileno=descriptor)
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    # In uvicorn's words, by which others find the port that was free.
    log.info(f"Uvicorn running on http://{host}:{listener.getsockname()[1]}")
    return listener


class _Child:
    """One process that serves; started again when it dies, later each time."""

    def __init__(self, descriptor: int, environment: Mapping[str, str]) -> None:
        self._descriptor, self._environment = descriptor, environment
        self._pause = 0.0
        self._due: float | None = None
        self._start()

    def _start(self) -> None:
        self._due, self._started = None, monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "api", "--fd", str(self._descriptor)],
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            pass_fds=[self._descriptor],
            # Ctrl-C reaches the parent alone, which then asks all of them.
            start_new_session=True,
            preexec_fn=_ended_with(os.getpid()),  # noqa: PLW1509
        )

    def tend(self) -> None:
        if self._due is not None:
            if monotonic() >= self._due:
                self._start()
            return
        code = self._process.poll()
        if code is None:
            return
        steady = monotonic() - self._started >= _STEADY_SECONDS
        doubled = min(max(2 * self._pause, _FIRST_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)
        self._pause = 0.0 if steady else doubled
        self._due = monotonic() + self._pause
        log.warning("API process ended", exit_code=code, again_in_seconds=self._pause)

    def ask_to_end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()

    def end(self, deadline: float) -> None:
        try:
            self._process.wait(max(0.0, deadline - monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _ended_with(parent: int) -> Callable[[], None] | None:
    """To be run in a child before exec: the kernel kills it when its parent dies. Linux only;
    elsewhere a killed parent leaves its processes behind."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)

    return tie
