"""`python -P -m workers.health`: exit code 0 if this machine's workers are listening.

For the health check of a container: it reports problems and exits with 1 where the consumer has
given no sign of life, or where the database does not respond or has another schema.
"""

import fcntl
import os
import socket
import sys
import threading
from contextlib import closing
from pathlib import Path
from time import monotonic, time

import structlog
from sqlalchemy.exc import SQLAlchemyError

from infrastructure.settings import Settings, SettingsError, load_settings
from models.database import Database, schema_fault

log = structlog.get_logger()

_FOLDER = "workers"
_PAUSE_SECONDS = 1.0
"""At most one sign of life is written per this interval."""
_QUIET_SECONDS = 30.0
_QUIET_LEASES = 3.0


class Heartbeat:
    """A file that this process has locked while it runs: the system lets go of the lock with the
    process. There are as many files as workers of this machine ran at once; none is removed. If no
    file can be written, the health check fails, but work goes on."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.data_dir / _FOLDER
        self._file: int | None = None
        self._beaten = float("-inf")
        self._warned = False
        # The consumer and the thread that renews a lease both give signs.
        self._one_at_a_time = threading.Lock()

    def beat(self) -> None:
        """Record that the consumer is healthy; cheap enough for every turn of a loop."""
        now = monotonic()
        if now - self._beaten < _PAUSE_SECONDS:
            return
        self._beaten = now
        try:
            with self._one_at_a_time:
                # One whose file was removed makes another.
                if self._file is None or not os.fstat(self._file).st_nlink:
                    self._file = self._locked_file()
                os.utime(self._file)
        except OSError as error:
            if not self._warned:
                log.warning("no sign of life can be written", detail=str(error))
            self._warned = True

    def end(self) -> None:
        """Let go of the file, because this process is no longer a worker."""
        with self._one_at_a_time:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _locked_file(self) -> int:
        """The descriptor of the first file that no other process has locked."""
        self._folder.mkdir(parents=True, exist_ok=True)
        number = 0
        while True:
            path = self._folder / f"{socket.gethostname()}.{number}"
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.pwrite(file, b"%-20d" % os.getpid(), 0)
                return file
            except OSError as error:
                os.close(file)
                if not isinstance(error, BlockingIOError):
                    raise
            number += 1


def unwell(settings: Settings) -> str | None:
    """Why this machine's workers are unhealthy; None where each gave a recent sign of life."""
    longest = max(_QUIET_SECONDS, _QUIET_LEASES * settings.lease_seconds)
    files = (settings.data_dir / _FOLDER).glob(f"{socket.gethostname()}.*")
    # Also of a time ahead: the last sign was given before the clock was set back.
    ages = {one: abs(time() - one.stat().st_mtime) for one in files if _is_held(one)}
    if not ages:
        folder = settings.data_dir
        return f"no worker of this machine has given a sign of life in {folder} (FEDAUDIT_DATA_DIR)"
    path, age = max(ages.items(), key=lambda one: one[1])
    if age <= longest:
        return None
    worker = path.read_text("ascii").strip()
    return f"the consumer of worker {worker} has given no sign of life for {age:.0f} s"


def _is_held(path: Path) -> bool:
    """Whether a running process has locked the file."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def main() -> int:
    """Report problems, if any; returns the exit code."""
    try:
        settings = load_settings()
    except SettingsError as error:
        raise SystemExit(str(error)) from None
    try:
        if (reason := unwell(settings)) is None:
            with closing(Database(settings.database_url)) as database:
                reason = schema_fault(database)
    except SQLAlchemyError as error:
        reason = f"the database does not answer: {type(error).__name__}"
    sys.stdout.write(f"{reason or 'well'}\n")
    return 0 if reason is None else 1


if __name__ == "__main__":
    sys.exit(main())
