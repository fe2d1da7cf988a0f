"""Several API processes behind one port: started, kept and ended together.

The parent binds the port and serves nothing. Each process accepts connections from the socket that
it inherits, and is `python -P -m api --fd N` as any other.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

import structlog

from api.http.request_metrics import SHARED_FOLDER

log = structlog.get_logger()

CHILD = "FEDAUDIT_API_CHILD"
"""Set for a process that serves, so that it does not start others."""
_PR_SET_PDEATHSIG = 1
_BACKLOG = 128
_GRACE_SECONDS = 7.0
"""Twice what a process gives its own requests: the service ends within ten seconds."""
_TEND_SECONDS = 0.2
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 30.0
_STEADY_SECONDS = 60.0


def serve_by(processes: int, *, host: str, port: int, descriptor: int | None) -> int:
    """Serve by so many processes until a signal asks for the stop; returns the exit code.

    `descriptor`: of a listening socket that is already open, instead of the address.
    """
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
        command: Sequence[str] = [sys.executable, "-P", "-m", "api", "--fd", str(self._descriptor)]
        self._due, self._started = None, monotonic()
        self._process = subprocess.Popen(
            command,
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
    """To be run in a child before exec: the kernel kills it when its parent dies.

    Linux only; elsewhere a killed parent leaves its processes behind.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)

    return tie
