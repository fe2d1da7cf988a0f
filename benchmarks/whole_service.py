"""A whole service on servers of its own: Postgres, Valkey, and the API, workers and sweepers as
processes."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import migrations
from benchmarks.served_api import await_ready, make_key
from benchmarks.servers import Server, free_port, start_postgres, start_valkey
from infrastructure.signing_keys import create_key_file
from models.database import Database
from models.values import SCOPES

_STOP_SECONDS = 60.0
WORKER = ("workers", "--device", "cpu")
SWEEPER = ("workers.sweeper",)


@dataclass(frozen=True)
class Process:
    """A process of the service, and what it says."""

    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """Its number."""
        return self.popen.pid

    @property
    def ready(self) -> bool:
        """Whether a worker listens; it has imported its libraries by then."""
        return "worker ready" in self.log.read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        self.popen.kill()
        self.popen.wait()


@dataclass(frozen=True)
class WholeService:
    """The API with its servers; workers and sweepers are started by `start`."""

    url: str
    key: str
    postgres: Server
    signing_key: Path
    environment: Mapping[str, str]
    folder: Path
    """Of the logs, one for each process."""
    _started: list[Process] = field(default_factory=list)

    def start(self, program: tuple[str, ...], *, tree: Path | None = None) -> Process:
        """One process of the service, `tree`: of which commit. It ends with the service, unless it
        did before."""
        command = [sys.executable, "-P", "-m", *program]
        path = self.folder / f"{len(self._started)}-{program[0]}.log"
        own = self.environment if tree is None else {**self.environment, "PYTHONPATH": str(tree)}
        with path.open("wb") as log:
            popen = subprocess.Popen(command, env=own, cwd=tree, stdout=log, stderr=log)
        self._started.append(Process(popen, path))
        return self._started[-1]

    @property
    def postgres_processes(self) -> list[psutil.Process]:
        """Its server's; none where TEST_DATABASE_URL names it."""
        server = self.postgres.process
        return [psutil.Process(server.pid)] if server else []

    def stop(self, processes: Sequence[Process] | None = None) -> None:
        """Ask these, or all that still run, to stop, and wait for them."""
        asked = self._started if processes is None else processes
        for process in asked:
            process.popen.terminate()
        for process in asked:
            process.popen.wait(_STOP_SECONDS)


@contextmanager
def whole_service(folder: Path, *, sources: Path, **settings: str) -> Iterator[WholeService]:
    """`settings`: of the processes, as FEDAUDIT_*, beside those that name servers and folders."""
    with ExitStack() as stack:
        postgres, valkey = start_postgres(), start_valkey()
        stack.callback(postgres.stop)
        stack.callback(valkey.stop)
        migrations.upgrade(postgres.url)
        signing_key = folder / "key.pem"
        create_key_file(signing_key)
        of_all = {
            "data_dir": str(folder / "data"),
            "sources_dir": str(sources),
            "database_url": postgres.url,
            "broker_url": valkey.url,
            "signing_key_file": str(signing_key),
            **settings,
        }
        database = Database(postgres.url)
        _, key = make_key(database, "benchmark", SCOPES, name="benchmark")
        database.close()
        environment = {f"FEDAUDIT_{name.upper()}": value for name, value in of_all.items()}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        service = WholeService(url, key, postgres, signing_key, environment, folder)
        stack.callback(service.stop)
        service.start(("api", "--port", str(port)))
        await_ready(url)
        yield service
