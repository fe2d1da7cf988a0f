"""The commands `up`, `worker` and `migrate`."""

import os
import re
from collections.abc import Sequence
from typing import Annotated

import typer

from fedaudit.cli.display.output import say, write_line
from fedaudit.cli.failures import CommandError, usage_error
from fedaudit.cli.options import AsJson, DataDir, SourcesDir
from fedaudit.cli.service.installation import Installation, python_module
from fedaudit.cli.service.supervisor import Service, Supervisor, stop_signals
from fedaudit.cli.service.up import announce, open_pages, running_service

app = typer.Typer()
DEFAULT_PORT = 8765
# A worker finishes its batch, flushes and gives its lease back within 30 s of SIGTERM.
_GRACE_SECONDS = 35.0
_TEND_SECONDS = 0.2
_CUDA = re.compile(r"cuda:(\d+(?:,\d+)*)")


@app.command()
def up(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port to listen on; 0 takes a free one.",
            show_default=f"{DEFAULT_PORT}; with --json, which tells it, a free one",
        ),
    ] = None,
    data_dir: DataDir = None,
    sources_dir: SourcesDir = None,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the pages in the browser.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start the whole service: API, worker and sweeper. Ctrl-C stops it."""
    installation = Installation.choose(data_dir, sources_dir=sources_dir)
    if port is None:
        # A bookmark needs the same address every time; a program reads the one that it is told.
        port = 0 if as_json else DEFAULT_PORT
    with running_service(installation, host=host, port=port) as service:
        announce(service, as_json=as_json)
        if open_browser:
            open_pages(service.url)
        service.tend()
        say("stopping")


@app.command()
def worker(
    *,
    device: Annotated[str, typer.Option(help="cpu, cuda:0, or cuda:0,1 for one process each.")],
    data_dir: DataDir = None,
    sources_dir: SourcesDir = None,
) -> None:
    """Train what the service's queue hands out, until stopped."""
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


@app.command()
def migrate(*, data_dir: DataDir = None) -> None:
    """Bring the service's database up to this version's schema."""
    installation = Installation.choose(data_dir)
    said = installation.migrate().strip()
    write_line(said or "the database is up to date")


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
