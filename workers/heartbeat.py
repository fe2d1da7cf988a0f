"""A sign of life of a worker's consumer, in a file that the health check reads.

The consumer gives one on each turn of its loop, and a unit on each renewal of its lease. A worker
that waits for its broker, receives nothing or hangs gives none.
"""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, time

import structlog

from infrastructure.settings import Settings

log = structlog.get_logger()

_FOLDER = "workers"
_PAUSE_SECONDS = 1.0
"""At most one sign of life is written per this interval."""
_QUIET_SECONDS = 30.0
_QUIET_LEASES = 3.0


class Heartbeat:
    """The file of this process. If it cannot be written, the health check fails, but work goes
    on."""

    def __init__(self, settings: Settings) -> None:
        self._path = _folder(settings) / f"{_host()}.{os.getpid()}"
        self._beaten: float | None = None
        self._warned = False

    def beat(self) -> None:
        """Record that the consumer is healthy; cheap enough for every turn of a loop."""
        now = monotonic()
        if self._beaten is not None and now - self._beaten < _PAUSE_SECONDS:
            return
        self._beaten = now
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()
        except OSError as error:
            if not self._warned:
                log.warning("no sign of life can be written", detail=str(error))
            self._warned = True

    def end(self) -> None:
        """Remove the file, because this process is no longer a worker."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("sign of life not removed", detail=str(error))


def unwell(settings: Settings) -> str | None:
    """Why this machine's workers are unhealthy; None where each gave a recent sign of life."""
    longest = max(_QUIET_SECONDS, _QUIET_LEASES * settings.lease_seconds)
    ages = {pid: time() - path.stat().st_mtime for pid, path in _living(settings)}
    if not ages:
        return "no worker of this machine has given a sign of life"
    quiet = {pid: age for pid, age in ages.items() if age > longest}
    if not quiet:
        return None
    pid, age = max(quiet.items(), key=lambda one: one[1])
    return f"the consumer of worker {pid} has given no sign of life for {age:.0f} s"


def _living(settings: Settings) -> Iterator[tuple[int, Path]]:
    """The running processes of this machine that left a file."""
    for path in sorted(_folder(settings).glob(f"{_host()}.*")):
        number = path.name.rpartition(".")[2]
        if number.isdecimal() and _runs(int(number)):
            yield int(number), path


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _folder(settings: Settings) -> Path:
    return settings.data_dir / _FOLDER


def _host() -> str:
    return socket.gethostname()
