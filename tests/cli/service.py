"""Starting `fedaudit up` as a person would, and ending it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks.served_api import make_key
from models.database import Database
from models.vocabulary import SCOPES

SCRIPT = Path(sys.executable).parent / "fedaudit"


def clean_environment(**changes: str) -> dict[str, str]:
    """The environment without any setting of a service, and with the changes."""
    left_out = ("FEDAUDIT_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, "OMP_NUM_THREADS": "1", "NO_COLOR": "1", **changes}


@dataclass(frozen=True)
class Service:
    """A running `fedaudit up`."""

    process: subprocess.Popen[str]
    url: str
    api_key: str
    data_dir: Path
    project: str = "default"

    def in_project(self, name: str) -> "Service":
        """The same service to somebody with every scope in another project, which finds nothing of
        this one's."""
        database = Database(f"sqlite:///{self.data_dir / 'fedaudit.db'}")
        _, key = make_key(database, name, SCOPES, name="tests")
        database.close()
        return replace(self, api_key=key, project=name)

    @property
    def environment(self) -> dict[str, str]:
        """What its clients find it by."""
        return {"FEDAUDIT_URL": self.url, "FEDAUDIT_API_KEY": self.api_key}

    def child(self, module: str) -> psutil.Process:
        """Its process that runs a module, as `api` or `workers.sweeper`."""
        [found] = [
            child
            for child in psutil.Process(self.process.pid).children()
            if module in child.cmdline()
        ]
        return found

    def stop(self) -> str:
        """End it with SIGTERM; gives what it wrote to standard error."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=15)[1]


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
def running(*arguments: object, data_dir: Path, **options) -> Iterator[Service]:
    """A service that is ready; whatever happens, it has ended when the block is left."""
    process = start(*arguments, data_dir=data_dir, **options)
    with process:
        try:
            line = process.stdout.readline()
            assert line, process.communicate(timeout=30)[1]
            facts = json.loads(line)
            yield Service(process, facts["url"], facts["api_key"], Path(facts["data_dir"]))
        finally:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=15)
