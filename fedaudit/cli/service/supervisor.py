"""Processes that are kept alive together and end together."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 30.0
_STEADY_SECONDS = 60.0
"""A process that ran so long is started again at once when it ends."""
_MAX_LOG_BYTES = 10 * 1024 * 1024
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Service:
    """One process: its name, its command and what it finds in its environment."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    """Open sockets that the process inherits."""


class Supervisor:
    """Starts services, starts again those that die, and stops them all.

    `log_folder` receives the output of each, `<name>.log`; None lets them write to ours. `report`
    is called with a plain sentence when a service has died.
    """

    def __init__(
        self, services: Sequence[Service], *, log_folder: Path | None, report: Callable[[str], None]
    ) -> None:
        self._report = report
        self._children = [_Child(service, log_folder) for service in services]

    def start(self) -> None:
        """Start every service."""
        for child in self._children:
            child.start()

    def log(self, name: str) -> Path | None:
        """Where the output of a service goes."""
        return next(child.log for child in self._children if child.service.name == name)

    def exit_code(self, name: str) -> int | None:
        """How a service ended; None while it runs."""
        return next(child.ended for child in self._children if child.service.name == name)

    def tend(self) -> None:
        """Start again what has died, later each time. Call this a few times a second."""
        for child in self._children:
            if (remark := child.tend()) is not None:
                self._report(remark)

    def stop(self, *, grace_seconds: float) -> None:
        """Ask every process to end, wait, and kill what is left."""
        for child in self._children:
            child.signal(signal.SIGTERM)
        deadline = monotonic() + grace_seconds
        for child in self._children:
            child.wait(deadline)
        for child in self._children:
            child.signal(signal.SIGKILL)
            child.wait(None)


class _Child:
    def __init__(self, service: Service, log_folder: Path | None) -> None:
        self.service = service
        self.log = None if log_folder is None else log_folder / f"{service.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._pause = 0.0
        self._due: float | None = None

    @property
    def ended(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        self._due = None
        self._started = monotonic()
        output = None if self.log is None else _open_log(self.log)
        try:
            # Between fork and exec only: this process has no other thread that could hold a lock.
            self._process = subprocess.Popen(
                self.service.command,
                env=dict(self.service.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=self.service.descriptors,
                # Ctrl-C in a terminal reaches this process alone, which then stops the others.
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509
            )
        finally:
            if output is not None:
                os.close(output)

    def tend(self) -> str | None:
        if self._due is not None:
            if monotonic() >= self._due:
                self.start()
            return None
        code = self.ended
        if code is None:
            self._keep_log_small()
            return None
        steady = monotonic() - self._started >= _STEADY_SECONDS
        doubled = min(max(2 * self._pause, _FIRST_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)
        self._pause = 0.0 if steady else doubled
        self._due = monotonic() + self._pause
        where = "" if self.log is None else f"; see {self.log}"
        return (
            f"the {self.service.name} process ended {_how(code)}; "
            f"it is started again in {self._pause:.0f} s{where}"
        )

    def _keep_log_small(self) -> None:
        """Start the log anew while the process writes to it, which goes on at the new end."""
        try:
            if self.log is not None and self.log.stat().st_size > _MAX_LOG_BYTES:
                _set_aside(self.log)
        except OSError:
            # A full disk, say. The next look tries again; what runs must not end for its log.
            return

    def signal(self, number: signal.Signals) -> None:
        self._due = None
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, deadline: float | None) -> None:
        if self._process is None:
            return
        left = None if deadline is None else max(0.0, deadline - monotonic())
        with suppress(subprocess.TimeoutExpired):  # what outlives the grace is killed next
            self._process.wait(left)


def _how(code: int) -> str:
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"


def _open_log(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > _MAX_LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _set_aside(log: Path) -> None:
    """Copy the end of a log to `.log.1` and empty it; lines of the moment between may be lost."""
    with log.open("rb") as source:
        source.seek(-_MAX_LOG_BYTES, os.SEEK_END)
        kept = os.open(log.with_suffix(".log.1"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(kept, "wb") as target:
            shutil.copyfileobj(source, target)
    os.truncate(log, 0)


def _die_with(parent: int) -> Callable[[], None] | None:
    """Before exec in the child: the kernel kills it when its parent dies, however that happens.

    Linux only; elsewhere a killed supervisor leaves its processes behind.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call above
            os._exit(1)

    return tie


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM, Ctrl-C or a closed terminal sets."""
    stopping = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in numbers}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
