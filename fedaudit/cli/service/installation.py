"""Which service the commands `up`, `worker`, `migrate` and `keys` speak of, and how they reach it.

They start the service's own modules as processes: this library imports none of them.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedaudit.cli.failures import CommandError, ExitCode, usage_error
from fedaudit.cli.specs import SOURCES_DIR

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
    """One service: embedded below a data folder, or on a database and a broker of its own."""

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

    @property
    def public_key(self) -> Path:
        """The public half of the key that reports are signed with, to hand out."""
        return self.private_key.with_name(f"{self.private_key.name}.pub")

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
        if self.embedded and not (self.data_dir / "fedaudit.db").exists():
            raise usage_error(
                f"no service keeps its data in {self.data_dir}; name its folder with --data-dir, "
                "or start one there with `fedaudit up`"
            )
        options = ["--project", project, "--scopes", ",".join(scopes), "--name", name]
        for option, value in (person or {}).items():
            if value is not None:
                # With `=`, so that no value is taken for an option.
                options.append(f"--{option}={value}")
        created: dict[str, Any] = json.loads(self.keys("create", *options))
        return created

    def keys(self, action: str, *options: str) -> str:
        """The JSON that an action on the API keys prints. Raises CommandError."""
        command = python_module("models.keys", action, "--database-url", self.database_url)
        return self._finish((*command, *options), what=f"keys {action} failed")

    @property
    def private_key(self) -> Path:
        """The key that this service signs with."""
        named = self.environment.get(SIGNING_KEY_FILE)
        return Path(named) if named else self.data_dir / "signing-key.pem"

    def mark_compromised(
        self, key_id: str, *, since: str | None, note: str | None
    ) -> dict[str, Any]:
        """What is known of a signing key once others may have it. Raises CommandError."""
        command = python_module(
            "models.signing_keys", "compromised", "--database-url", self.database_url
        )
        options = [f"--key-id={key_id}"]
        options += [] if since is None else [f"--since={since}"]
        options += [] if note is None else [f"--note={note}"]
        marked: dict[str, Any] = json.loads(
            self._finish((*command, *options), what="the key was not marked")
        )
        return marked

    def encrypt_secrets_anew(self) -> int:
        """Of how many webhooks the secrets were encrypted anew. Raises CommandError."""
        command = python_module("workers.webhooks")
        return int(self._finish(command, what="secrets were not encrypted anew"))

    def with_signing_key(self) -> "Installation":
        """The same, with a key to sign with: the one that is named, or one in the data folder.

        Raises CommandError where it cannot be used.
        """
        named = self.environment.get(SIGNING_KEY_FILE)
        path = named or str(self.data_dir / "signing-key.pem")
        _signing_key("check" if named else "ensure", path, environment=self.environment)
        return replace(self, environment={**self.environment, SIGNING_KEY_FILE: path})

    def _finish(self, command: Sequence[str], *, what: str) -> str:
        # What it writes, above all the database, is its owner's alone.
        return _finish(command, environment=self.environment, what=what, umask=0o077)


def make_signing_key(path: Path) -> str:
    """Make a private key; gives the path of the public one. Raises CommandError."""
    return _signing_key("create", str(path), environment=os.environ).strip()


def rotate_signing_key(path: Path) -> str:
    """Exchange the key in a file; gives where the old one is kept. Raises CommandError."""
    return _signing_key("rotate", str(path), environment=os.environ).strip()


def _signing_key(action: str, path: str, *, environment: Mapping[str, str]) -> str:
    command = python_module("infrastructure.signing_keys", action, "--file", path)
    return _finish(command, environment=environment, what="no key to sign with")


def _finish(
    command: Sequence[str], *, environment: Mapping[str, str], what: str, umask: int = -1
) -> str:
    done = subprocess.run(
        command,
        env=dict(environment),
        capture_output=True,
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


def last_lines(text: str) -> str:
    """The end of a process's output, where it says what went wrong; of a traceback the error."""
    lines = text.strip().splitlines()
    errors = [position for position, line in enumerate(lines) if _ERROR.match(line)]
    start = errors[-1] if errors and _TRACEBACK in text else -_LAST_LINES
    return "\n".join(f"  {line}" for line in lines[start:][:_LAST_LINES])
