"""The service of this machine: where it keeps its data, and its processes, which end together."""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from fedaudit.cli.options import SOURCES_DIR
from fedaudit.cli.output import CommandError, ExitCode, usage_error

DATABASE_URL = "FEDAUDIT_DATABASE_URL"
BROKER_URL = "FEDAUDIT_BROKER_URL"
DATA_DIR = "FEDAUDIT_DATA_DIR"
SIGNING_KEY_FILE = "FEDAUDIT_SIGNING_KEY_FILE"

SCOPES = (
    "experiments:read",
    "experiments:write",
    "reports:read",
    "reports:sign",
    "ledger:read",
    "federations:read",
    "federations:write",
    "admin",
    "metrics:read",
)
"""What keys may allow."""
STOPPED_EARLY = "stopped before the service was ready"

_STOPPED = {-number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
_LAST_LINES = 12
_TRACEBACK = "Traceback (most recent call last)"
_ERROR = re.compile(r"[A-Za-z_][\w.]*: ")


def python_module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs an installed module; `-P` keeps the working folder out of its path."""
    return (sys.executable, "-P", "-m", name, *arguments)


def default_data_dir() -> Path:
    """Where the embedded service keeps everything, by the XDG base directory specification."""
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home).expanduser() / "fedaudit"


@dataclass(frozen=True)
class Installation:
    """One service: embedded below a data folder, or on its own database and broker."""

    data_dir: Path
    database_url: str
    environment: Mapping[str, str]
    """What the service's processes are started with."""

    @classmethod
    def choose(
        cls, data_dir: Path | None = None, sources_dir: Path | None = None
    ) -> "Installation":
        """The installation named by options and FEDAUDIT_* variables.

        Raises CommandError where only one of database and broker is named, or where the folder
        of the sources is missing.
        """
        environment = dict(os.environ)
        database, broker = environment.get(DATABASE_URL), environment.get(BROKER_URL)
        if bool(database) != bool(broker):
            given, missing = (DATABASE_URL, BROKER_URL)[:: 1 if database else -1]
            raise usage_error(
                f"{given} is set and {missing} is not; set both, or neither for the embedded mode"
            )
        folder = data_dir or Path(environment.get(DATA_DIR) or default_data_dir())
        folder = folder.expanduser().absolute()
        environment[DATA_DIR] = str(folder)
        if sources_dir is not None:
            if not sources_dir.is_dir():
                raise usage_error(f"--sources-dir: {sources_dir} is no folder")
            environment[SOURCES_DIR] = str(sources_dir.absolute())
        return cls(folder, database or f"sqlite:///{folder}/fedaudit.db", environment)

    @property
    def embedded(self) -> bool:
        """Whether database and queue live below the data folder."""
        return not self.environment.get(DATABASE_URL)

    def migrate(self) -> str:
        """Bring the database's schema up to date; returns what was said. Raises CommandError."""
        if self.embedded:
            make_private_folder(self.data_dir)
        command = python_module("migrations", "upgrade", "--database-url", self.database_url)
        return self._finish(command, what="the database could not be migrated")

    def create_key(
        self,
        *,
        project: str,
        scopes: Sequence[str],
        name: str,
        person: Mapping[str, str | None] | None = None,
    ) -> dict[str, Any]:
        """A new API key: project, id, key, scopes and person. Raises CommandError."""
        asked = {"project": project, "scopes": list(scopes), "name": name, "person": person}
        return self._keys("create", asked, what="keys create failed")

    def _keys(self, action: str, asked: Mapping[str, Any], *, what: str) -> dict[str, Any]:
        """What an action on keys prints. Raises CommandError."""
        given = json.dumps({"action": action, "url": self.database_url, **asked})
        done: dict[str, Any] = json.loads(
            self._finish(python_module("models.keys"), what=what, given=given)
        )
        return done

    @property
    def private_key(self) -> Path:
        """The key that this service signs with."""
        named = self.environment.get(SIGNING_KEY_FILE)
        return Path(named) if named else self.data_dir / "signing-key.pem"

    def mark_compromised(
        self, key_id: str, *, since: str | None, note: str | None
    ) -> dict[str, Any]:
        """What is known of a signing key once others may have it. Raises CommandError."""
        asked = {"key_id": key_id, "since": since, "note": note}
        return self._keys("compromised", asked, what="the key was not marked")

    def with_signing_key(self) -> "Installation":
        """The same, with a key to sign with: the one that is named, or one in the data folder.

        Raises CommandError where it cannot be used.
        """
        named = self.environment.get(SIGNING_KEY_FILE)
        action: Literal["check", "ensure"] = "check" if named else "ensure"
        signing_key(action, self.private_key, environment=self.environment)
        environment = {**self.environment, SIGNING_KEY_FILE: str(self.private_key)}
        return replace(self, environment=environment)

    def _finish(self, command: Sequence[str], *, what: str, given: str = "") -> str:
        # What it writes, above all the database, is its owner's alone.
        return _finish(command, environment=self.environment, what=what, umask=0o077, given=given)


def signing_key(
    action: Literal["create", "rotate", "check", "ensure"],
    path: Path,
    *,
    environment: Mapping[str, str] = os.environ,
) -> str:
    """Make the private key in a file, exchange it, or look at it. Gives the path of the public key
    that was made, or where the old one is kept. Raises CommandError."""
    command = python_module("infrastructure.signing_keys", action, "--file", str(path))
    return _finish(command, environment=environment, what="no key to sign with").strip()


def _finish(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    what: str,
    umask: int = -1,
    given: str = "",
) -> str:
    done = subprocess.run(
        command,
        env=dict(environment),
        capture_output=True,
        input=given,
        text=True,
        check=False,
        # Ctrl-C in a terminal reaches this process alone, which then decides.
        start_new_session=True,
        umask=umask,
    )
    if done.returncode == 0:
        return done.stdout
    if done.returncode in _STOPPED:
        # The signal was faster than the new session. Only `up` comes here: it catches what ends
        # every other command.
        raise CommandError(STOPPED_EARLY)
    code = ExitCode.USAGE if done.returncode == ExitCode.USAGE else ExitCode.FAILED
    raise CommandError(f"{what}:\n{last_lines(done.stderr or done.stdout)}", code)


def make_private_folder(path: Path) -> None:
    """Make the folder for its owner alone. Raises CommandError where it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise usage_error(
            f"cannot make the folder {path}: {error.strerror}; name another with --data-dir"
        ) from None


def end_of(log: Path | None, lines: int = _LAST_LINES) -> str:
    """What is to be said of a log after a fault."""
    if log is None or not log.exists():
        return ""
    return f"; the end of {log}:\n{last_lines(log.read_text('utf-8', 'replace'), lines)}"


def last_lines(text: str, most: int = _LAST_LINES) -> str:
    """The end of a process's output, where it says what went wrong; of a traceback the error."""
    lines = text.strip().splitlines()
    errors = [position for position, line in enumerate(lines) if _ERROR.match(line)]
    start = errors[-1] if errors and _TRACEBACK in text else -most
    return "\n".join(f"  {line}" for line in lines[start:][:most])


_FIRST_PAUSE_SECONDS = 1.0
_MAX_PAUSE_SECONDS = 30.0
_STEADY_SECONDS = 60.0
"""A process that ran so long is started again at once when it ends."""
_MAX_LOG_BYTES = 10 * 1024 * 1024
_PR_SET_PDEATHSIG = 1


@dataclass
class Service:
    """One process, which can be started again."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path | None = None
    """What receives its output; None where it writes to ours."""
    descriptors: tuple[int, ...] = ()
    """Open sockets that the process inherits."""
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _started: float = field(default=0.0, init=False)
    _pause: float = field(default=0.0, init=False)
    _due: float | None = field(default=None, init=False)

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs, and before."""
        return None if self.process is None else self.process.poll()

    def start(self) -> None:
        """Start the process."""
        self._due = None
        self._started = monotonic()
        output = None
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            if self.log.exists() and self.log.stat().st_size > _MAX_LOG_BYTES:
                self.log.replace(self.log.with_suffix(".log.1"))
            output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # Between fork and exec only: this process has no other thread that could hold a lock.
            self.process = subprocess.Popen(
                self.command,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=self.descriptors,
                # Ctrl-C in a terminal reaches this process alone, which then stops the others.
                start_new_session=True,
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509
            )
        finally:
            if output is not None:
                os.close(output)

    def tend(self) -> str | None:
        """Start it again if it has died, later each time; returns what is to be said of that. Call
        this a few times a second."""
        if self._due is not None:
            if monotonic() >= self._due:
                self.start()
            return None
        code = self.exit_code
        if code is None:
            # The process goes on writing at the new end. On a full disk the next look tries again:
            # what runs must not end for its log.
            with suppress(OSError):
                if self.log is not None and self.log.stat().st_size > _MAX_LOG_BYTES:
                    _set_aside(self.log)
            return None
        steady = monotonic() - self._started >= _STEADY_SECONDS
        doubled = min(max(2 * self._pause, _FIRST_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)
        self._pause = 0.0 if steady else doubled
        self._due = monotonic() + self._pause
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        again = f"it is started again in {self._pause:.0f} s"
        return f"the {self.name} process ended {how}; {again}{end_of(self.log, lines=1)}"


@contextmanager
def running(services: Sequence[Service], *, grace_seconds: float) -> Iterator[None]:
    """Start the services. At the end ask each to end, wait, and kill what is left."""
    try:
        for one in services:
            one.start()
        yield
    finally:
        processes = [one.process for one in services if one.process is not None]
        for process in processes:
            process.terminate()
        deadline = monotonic() + grace_seconds
        for process in processes:
            with suppress(subprocess.TimeoutExpired):  # what outlives the grace is killed next
                process.wait(max(0.0, deadline - monotonic()))
        for process in processes:
            process.kill()
            process.wait()


def _set_aside(log: Path) -> None:
    """Copy the end of a log to `.log.1` and empty it; lines of the moment between may be lost."""
    with log.open("rb") as source:
        source.seek(-_MAX_LOG_BYTES, os.SEEK_END)
        kept = os.open(log.with_suffix(".log.1"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(kept, "wb") as target:
            # No more: the process writes on.
            target.write(source.read(_MAX_LOG_BYTES))
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
