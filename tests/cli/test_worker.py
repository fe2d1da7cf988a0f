"""`fedaudit worker`: a process per device."""

import sys

import psutil
import pytest

from fedaudit.cli import up
from fedaudit.cli.output import CommandError
from fedaudit.cli.up import _devices


@pytest.mark.parametrize(
    ("option", "devices"),
    [
        ("cpu", ["cpu"]),
        ("cuda:0", ["cuda:0"]),
        ("cuda:0,1", ["cuda:0", "cuda:1"]),
        ("cuda:3,1,3", ["cuda:3", "cuda:1"]),
    ],
)
def test_devices(option, devices):
    assert _devices(option) == devices


@pytest.mark.parametrize("option", ["", "gpu", "cuda", "cuda:", "cuda:a", "cuda:0,", "cpu,cpu"])
def test_what_is_no_device(option):
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
    assert [
        one for one in psutil.Process().children() if "time.sleep(600)" in str(one.cmdline())
    ] == []


@pytest.mark.parametrize(
    ("device", "reason"),
    [("cuda:0,1", "one worker"), ("gpu", "neither cpu"), ("cuda:99", "no CUDA device")],
)
def test_the_embedded_service_trains_on_a_device_that_is_there(command, device, reason):
    found = command("up", "--device", device)
    assert found.returncode == 2
    assert reason in found.stderr
