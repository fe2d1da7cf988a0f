"""Processes that live and end together."""

import os
import signal
import sys
from pathlib import Path
from time import monotonic

import psutil
import pytest

from fedaudit.cli import up
from fedaudit.cli.installation import Service, running
from fedaudit.cli.output import CommandError
from fedaudit.cli.up import _devices
from tests.waiting import wait_until

FOREVER = "import time; time.sleep(600)"
STUBBORN = (
    "import pathlib, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
)


@pytest.fixture
def log(tmp_path):
    return tmp_path / "logs" / "child.log"


@pytest.fixture
def child(log):
    def made(code: str, *arguments: object) -> Service:
        command = (sys.executable, "-c", code, *map(str, arguments))
        return Service("child", command, dict(os.environ), log)

    return made


def test_a_service_that_dies_is_started_again_later_each_time(child, log, tmp_path):
    stated: list[str] = []
    counter = tmp_path / "starts"
    dies = child(
        "import sys; open(sys.argv[1], 'a').write('x'); print('no torch'); sys.exit(5)", counter
    )

    def tend():
        stated.extend(filter(None, [dies.tend()]))

    before = monotonic()
    with running([dies], grace_seconds=0):
        wait_until(lambda: tend() or (counter.exists() and len(counter.read_text()) == 2))
        assert monotonic() - before >= 1.0  # the first pause
        wait_until(lambda: tend() or len(stated) == 2)
    assert "the child process ended with exit code 5; it is started again in 1 s" in stated[0]
    assert "in 2 s" in stated[1]
    assert stated[0].endswith(f"{log}:\n  no torch")


def test_the_end_kills_what_does_not_end_by_itself(child, tmp_path):
    ready = tmp_path / "ready"
    stubborn, willing = child(STUBBORN, ready), child(FOREVER)
    with running([stubborn, willing], grace_seconds=0.5):
        wait_until(ready.exists)
    assert stubborn.exit_code == -signal.SIGKILL
    assert willing.exit_code == -signal.SIGTERM


def test_a_large_log_is_put_aside_at_the_next_start(child, log):
    log.parent.mkdir()
    with log.open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)
    with running([ended := child("print('new')")], grace_seconds=0):
        wait_until(lambda: ended.exit_code == 0)
    assert log.read_text() == "new\n"
    assert Path(f"{log}.1").stat().st_size > 10 * 1024 * 1024


def test_a_log_stays_small_while_its_process_writes(child, log, monkeypatch):
    monkeypatch.setattr("fedaudit.cli.installation._MAX_LOG_BYTES", 100_000)
    flood = (
        "import sys, time\n"
        "for number in range(40):\n"
        "    for _ in range(100): print(f'{number:04} ' + 'x' * 195, flush=False)\n"
        "    sys.stdout.flush(); time.sleep(0.05)\n"
        # Again and again: lines of the moment in which a log is cut are lost.
        "while True: print('the last line', flush=True); time.sleep(0.1)\n"
    )
    writing, sizes = child(flood), [0]

    def ended():
        writing.tend()
        sizes.append(log.stat().st_size)
        return "the last line" in log.read_text()

    aside = log.with_suffix(".log.1")
    with running([writing], grace_seconds=0):
        wait_until(ended)
        # 800 kB were written.
        assert aside.stat().st_size == 100_000
        assert aside.stat().st_mode & 0o777 == 0o600
        writing.tend()
        assert log.stat().st_size <= 100_000
        # No hole: what is written after the cut begins the file.
        assert b"\0" not in log.read_bytes()
    assert max(sizes) < 800_000


# -- `fedaudit worker`: a process per device ------------------------------------------------------


def test_devices() -> None:
    for option, devices in (("cpu", ["cpu"]), ("cuda:3,1,3", ["cuda:3", "cuda:1"])):
        assert _devices(option) == devices
    for option in ("", "gpu", "cuda", "cuda:", "cuda:a", "cuda:0,", "cpu,cpu"):
        with pytest.raises(CommandError, match="--device"):
            _devices(option)


def test_the_embedded_service_has_one_worker(command, service):
    done = command("worker", "--device", "cpu", "--data-dir", service.data_dir)
    assert done.returncode != 0
    assert "a second worker" in done.stderr


def test_a_device_that_fails_ends_the_others(monkeypatch, tmp_path):
    def program(module, option, device):
        assert (module, option) == ("workers", "--device")
        code = {"cuda:8": "import time; time.sleep(600)", "cuda:9": "raise SystemExit(5)"}[device]
        return (sys.executable, "-c", code)

    monkeypatch.setattr(up, "python_module", program)
    with pytest.raises(CommandError, match="cuda:9 ended with exit code 5; the others stop"):
        up.worker(device="cuda:8,9", data_dir=tmp_path)
    commands = [str(one.cmdline()) for one in psutil.Process().children()]
    assert not any("time.sleep(600)" in one for one in commands)
