"""Real workers and sweepers as processes."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infrastructure.signing_keys import ensure_key_file
from tests.preloaded import Forked, programs

LEASE_SECONDS = 2.0


@dataclass
class Process:
    """A running process and its log."""

    popen: Forked
    log: Path

    def kill(self) -> None:
        """As a power cut would."""
        self.popen.kill()
        self.popen.wait()

    def stop(self, *, within: float = 30.0) -> int:
        """Ask it to stop; returns the exit code. Raises TimeoutExpired."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(within)

    @property
    def output(self) -> str:
        """What it has said."""
        return self.log.read_text(errors="replace")


@dataclass(frozen=True)
class Service:
    """Starts workers and sweepers on one database and broker."""

    environment: Mapping[str, str]
    folder: Path
    running: list[Process]

    def start(self, *module: str, tree: Path | None = None) -> Process:
        """`python -P -m MODULE ARGUMENTS` with the service's settings; of the version in a tree."""
        log = self.folder / f"{len(self.running)}-{module[0]}.log"
        environment = {**os.environ, **self.environment}
        with log.open("wb") as output:
            popen = programs(tree).start(*module, env=environment, cwd=Path.cwd(), output=output)
        process = Process(popen, log)
        self.running.append(process)
        return process

    def worker(self) -> Process:
        """A worker of the CPU."""
        return self.start("workers", "--device", "cpu")

    def sweeper(self) -> Process:
        """A sweeper."""
        return self.start("workers.sweeper")


@contextmanager
def service(folder: Path, **settings: str) -> Iterator[Service]:
    """A service whose processes have ended when the block is left; settings as FEDAUDIT_*."""
    environment = {"FEDAUDIT_LEASE_SECONDS": str(LEASE_SECONDS), "FEDAUDIT_SWEEP_SECONDS": "0.2"}
    if "database_url" in settings:
        key = folder / "signing-key.pem"
        ensure_key_file(key)
        settings = {"signing_key_file": str(key), **settings}
    environment |= {f"FEDAUDIT_{name.upper()}": value for name, value in settings.items()}
    started = Service(environment, folder, [])
    try:
        yield started
    except BaseException:
        for process in started.running:
            print(f"---- {process.log.name}\n{process.output}")
        raise
    finally:
        for process in started.running:
            if process.popen.poll() is None:
                process.kill()
