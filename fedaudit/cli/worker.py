"""The command `worker`."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from fedaudit.cli.display.output import say
from fedaudit.cli.failures import CommandError, usage_error
from fedaudit.cli.service.installation import Installation, python_module
from fedaudit.cli.service.stop_signals import stop_signals
from fedaudit.cli.service.supervisor import Service, Supervisor

# A worker finishes its batch, flushes and gives its lease back within 30 s of SIGTERM.
_GRACE_SECONDS = 35.0
_TEND_SECONDS = 0.2
_CUDA = re.compile(r"cuda:(\d+(?:,\d+)*)")


def worker_command(device: str, *, data_dir: Path | None, sources_dir: Path | None) -> None:
    """Run one worker process per device until SIGTERM or Ctrl-C. Raises CommandError."""
    devices = _devices(device)
    installation = Installation.choose(data_dir, sources_dir=sources_dir)
    environment = {"OMP_NUM_THREADS": "1", **installation.environment}
    if len(devices) == 1:
        # The worker takes this process's place, so that whoever supervises it sees it directly.
        command = python_module("workers", "--device", devices[0])
        os.execve(command[0], command, environment)
    services = [
        Service(f"worker {one}", python_module("workers", "--device", one), environment)
        for one in devices
    ]
    supervisor = Supervisor(services, log_folder=None, report=say)
    with stop_signals() as stopping:
        try:
            supervisor.start()
            while not stopping.wait(_TEND_SECONDS):
                _check(supervisor, services)
        finally:
            supervisor.stop(grace_seconds=_GRACE_SECONDS)


def _check(supervisor: Supervisor, services: Sequence[Service]) -> None:
    """Whoever supervises this process starts all devices again, rather than each its own."""
    for service in services:
        if (code := supervisor.exit_code(service.name)) is not None:
            raise CommandError(f"the {service.name} ended with exit code {code}; the others stop")


def _devices(device: str) -> list[str]:
    if device == "cpu":
        return ["cpu"]
    if (found := _CUDA.fullmatch(device)) is None:
        raise usage_error(f"--device: {device!r} is neither cpu nor cuda:0, nor cuda:0,1 and so on")
    return [f"cuda:{number}" for number in dict.fromkeys(found[1].split(","))]
