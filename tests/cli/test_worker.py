"""`fedaudit worker`: a process per device."""

import pytest

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


def test_a_device_that_fails_ends_the_others(command, tmp_path):
    import torch

    if torch.cuda.device_count() > 8:
        pytest.skip("this machine has the devices that should be missing")
    command("migrate", "--data-dir", tmp_path)
    done = command("worker", "--device", "cuda:8,9", "--data-dir", tmp_path)
    assert done.returncode == 1
    assert "ended with exit code 1; the others stop" in done.stderr
    assert "CUDA" in done.stderr
