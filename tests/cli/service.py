"""Running services: `fedaudit up` as a person starts it, and its processes by forks."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import psutil

from benchmarks.servers import free_port
from infrastructure.signing_keys import create_key_file
from models.keys import create_key
from models.values import SCOPES
from tests.preloaded import programs
from tests.waiting import wait_until

SCRIPT = Path(sys.executable).parent / "fedaudit"


def clean_environment(**changes: str) -> dict[str, str]:
    """The environment without any setting of a service, and with the changes."""
    left_out = ("FEDAUDIT_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", **changes}


def status(url: str, **headers: str) -> int | None:
    """That of an answer; None without one."""
    try:
        return httpx.get(url, headers=headers, timeout=5, trust_env=False).status_code
    except httpx.HTTPError:
        return None


@dataclass(frozen=True)
class Service:
    """A running service."""

    url: str
    api_key: str
    data_dir: Path
    project: str = "default"

    def in_project(self, name: str) -> "Service":
        """The same service to somebody with every scope in another project, which finds nothing of
        this one's."""
        return replace(self, api_key=self.key_with(*SCOPES, project=name), project=name)

    def key_with(self, *scopes: str, project: str | None = None, person: str | None = None) -> str:
        """One more key, of this project unless another is named."""
        made = create_key(
            f"sqlite:///{self.data_dir / 'fedaudit.db'}",
            project=project or self.project,
            scopes=scopes,
            name="tests",
            person={"name": person} if person else None,
        )
        return str(made["key"])

    @property
    def environment(self) -> dict[str, str]:
        """What its clients find it by."""
        return {"FEDAUDIT_URL": self.url, "FEDAUDIT_API_KEY": self.api_key}

    @property
    def bearer(self) -> dict[str, str]:
        """The header of its key."""
        return {"Authorization": f"Bearer {self.api_key}"}


@contextmanager
def forked(data_dir: Path, *, database: Path, sources: Path) -> Iterator[Service]:
    """The processes that `fedaudit up` starts, on a copy of a migrated database."""
    data_dir.mkdir()
    shutil.copyfile(database, data_dir / "fedaudit.db")
    create_key_file(data_dir / "signing-key.pem")
    folders = {"FEDAUDIT_DATA_DIR": str(data_dir), "FEDAUDIT_SOURCES_DIR": str(sources)}
    environment, port = clean_environment(**folders), str(free_port())
    found = Service(f"http://127.0.0.1:{port}", "", data_dir).in_project("default")
    modules = (("api", "--port", port), ("workers", "--device", "cpu"), ("workers.sweeper",))
    with (data_dir / "log").open("wb") as log:
        running = [
            programs().start(*module, env=environment, cwd=data_dir, output=log)
            for module in modules
        ]
    try:
        wait_until(lambda: status(f"{found.url}/health/ready") == 200, "a ready API", pause=0.1)
        yield found
    finally:
        for process in running:
            process.kill()
            process.wait()


@dataclass(frozen=True)
class Up(Service):
    """A running `fedaudit up`."""

    process: subprocess.Popen[str] | None = None

    @property
    def processes(self) -> list[psutil.Process]:
        """Those that it started."""
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def child(self, module: str) -> psutil.Process:
        """Its process that runs a module, as `api` or `workers.sweeper`."""
        [found] = [child for child in self.processes if module in child.cmdline()]
        return found


def start(
    *arguments: object,
    data_dir: Path,
    script: Path = SCRIPT,
    environment: dict[str, str] | None = None,
    process_group: int | None = None,
) -> subprocess.Popen[str]:
    """`fedaudit up` on a data folder, away from the checkout."""
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        [str(script), "up", "--json", "--data-dir", str(data_dir), *map(str, arguments)],
        env=environment or clean_environment(),
        cwd=data_dir.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=process_group,
    )


@contextmanager
def running(*arguments: object, data_dir: Path, **options) -> Iterator[Up]:
    """A service that is ready; whatever happens, it has ended when the block is left."""
    process = start(*arguments, data_dir=data_dir, **options)
    with process:
        try:
            line = process.stdout.readline()
            assert line, process.communicate(timeout=30)[1]
            facts = json.loads(line)
            folder = Path(facts["data_dir"])
            yield Up(facts["url"], facts["api_key"], folder, process=process)
        finally:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=15)
