"""The servers of tests and benchmarks end with the process that started them, however it ends."""

import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

_REPOSITORY = Path(__file__).resolve().parents[1]
_START = """
import time
from benchmarks.servers import start_postgres, start_valkey
for server in (start_postgres(), start_valkey()):
    print(server.process.pid, server.folder, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's promise is Linux's")
@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_servers_end_with_a_killed_test_run(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TEST_DATABASE_URL", "TEST_BROKER_URL"):
        monkeypatch.delenv(name, raising=False)
    with subprocess.Popen(
        [sys.executable, "-c", _START], stdout=subprocess.PIPE, text=True, cwd=_REPOSITORY
    ) as run:
        lines = [run.stdout.readline().split() for _ in range(2)]
        servers = [psutil.Process(int(pid)) for pid, _ in lines]
        assert all(server.is_running() for server in servers)
        getattr(run, end)()
    _, alive = psutil.wait_procs(servers, timeout=10)
    for _, folder in lines:
        # A killed run cannot remove what it wrote.
        shutil.rmtree(folder, ignore_errors=True)
    assert alive == []
