"""`python -P -m workers.health`: exit code 0 if this machine's workers are listening.

For the health check of a container: it reports problems and exits with 1 where the consumer has
given no sign of life, or where the database does not respond or has another schema.
"""

import fcntl
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, time

import structlog
from sqlalchemy.exc import SQLAlchemyError

from infrastructure.settings import Settings, SettingsError, load_settings
from models.database import Database, schema_state

log = structlog.get_logger()

_FOLDER = "workers"
_PAUSE_SECONDS = 1.0
"""At most one sign of life is written per this interval."""
_QUIET_SECONDS = 30.0
_QUIET_LEASES = 3.0


class Heartbeat:
    """The file of this process, locked while it runs: the system lets go of the lock with the
    process, whose number another may have by then. If the file cannot be written, the health check
    fails, but work goes on."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.data_dir / _FOLDER / f"{socket.gethostname()}.{os.getpid()}"
        self._file: int | None = None
        self._beaten: float | None = None
        self._warned = False
        # The consumer and the thread that renews a lease both give signs.
        self._one_at_a_time = threading.Lock()

    def beat(self) -> None:
        """Record that the consumer is healthy; cheap enough for every turn of a loop."""
        now = monotonic()
        if self._beaten is not None and now - self._beaten < _PAUSE_SECONDS:
            return
        self._beaten = now
        try:
            with self._one_at_a_time:
                os.utime(self._locked_file())
        except OSError as error:
            if not self._warned:
                log.warning("no sign of life can be written", detail=str(error))
            self._warned = True

    def end(self) -> None:
        """Remove the file, because this process is no longer a worker."""
        try:
            with self._one_at_a_time:
                self._path.unlink(missing_ok=True)
                self._close()
        except OSError as error:
            log.warning("sign of life not removed", detail=str(error))

    def _locked_file(self) -> int:
        """The descriptor of the file at the path; a file that was removed is made again."""
        if self._file is not None and os.fstat(self._file).st_nlink:
            return self._file
        self._close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            # Not waited for: a check has a shared lock for a moment, and the next sign is soon.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise
        self._file = file
        return file

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def unwell(settings: Settings) -> str | None:
    """Why this machine's workers are unhealthy; None where each gave a recent sign of life."""
    longest = max(_QUIET_SECONDS, _QUIET_LEASES * settings.lease_seconds)
    # Also of a time ahead: the last sign was given before the clock was set back.
    ages = {pid: abs(time() - path.stat().st_mtime) for pid, path in _living(settings)}
    if not ages:
        return "no worker of this machine has given a sign of life"
    quiet = {pid: age for pid, age in ages.items() if age > longest}
    if not quiet:
        return None
    pid, age = max(quiet.items(), key=lambda one: one[1])
    return f"the consumer of worker {pid} has given no sign of life for {age:.0f} s"


def _living(settings: Settings) -> Iterator[tuple[int, Path]]:
    """The running processes of this machine that have a file; files of others are removed."""
    for path in sorted((settings.data_dir / _FOLDER).glob(f"{socket.gethostname()}.*")):
        number = path.name.rpartition(".")[2]
        if number.isdecimal() and _is_held(path):
            yield int(number), path


def _is_held(path: Path) -> bool:
    """Whether a running process has locked the file; an unlocked one is removed."""
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        # Another check may have removed it, and a new worker may have its own there by now.
        if os.fstat(file).st_nlink:
            path.unlink(missing_ok=True)
        return False
    finally:
        os.close(file)


def main() -> int:
    """Report problems, if any; returns the exit code."""
    try:
        settings = load_settings()
    except SettingsError as error:
        raise SystemExit(str(error)) from None
    if (reason := unwell(settings)) is None:
        reason = _schema_fault(settings.database_url)
    sys.stdout.write(f"{reason or 'well'}\n")
    return 0 if reason is None else 1


def _schema_fault(url: str) -> str | None:
    database = Database(url)
    try:
        schema = schema_state(database)
    except SQLAlchemyError as error:
        return f"the database does not answer: {type(error).__name__}"
    finally:
        database.dispose()
    return None if schema.matches else schema.fault


if __name__ == "__main__":
    sys.exit(main())
