"""The command line as a person calls it, in a process of its own."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.service import SPEC, spec
from tests.cli.service import SCRIPT, Service, clean_environment, running
from tests.preloaded import programs
from tests.processes import completed

SECONDS = 120


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs `fedaudit ARGUMENTS` away from the checkout; `env` sets variables."""

    def call(
        *arguments: object, stdin: str = "", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return programs().run(
            *map(str, arguments),
            stdin=stdin,
            env=clean_environment(**(env or {})),
            cwd=tmp_path,
            timeout=SECONDS,
        )

    return call


@pytest.fixture
def installed_command(tmp_path: Path) -> Command:
    """The same by the script that was installed, from the first import on."""

    def call(
        *arguments: object, stdin: str = "", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return completed(
            [str(SCRIPT), *map(str, arguments)],
            input=stdin,
            env=clean_environment(**(env or {})),
            cwd=tmp_path,
        )

    return call


@pytest.fixture(scope="session")
def own_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running `fedaudit up` for those who kill its processes and exchange its keys."""
    with running(data_dir=tmp_path_factory.mktemp("service") / "data") as service:
        yield service


@pytest.fixture
def call(command: Command, service: Service) -> Command:
    """Runs a command against the module's service; `env` sets variables."""

    def run(*arguments: object, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return command(*arguments, stdin=stdin, env={**service.environment, **env})

    return run


@pytest.fixture
def small_spec() -> dict[str, Any]:
    """An experiment of a second."""
    gate, odds = SPEC["gates"][0], {"figure": "equalized_odds_difference", "op": "le"}
    return spec(
        name="small",
        seed=3,
        federation={"clients_per_group": [80, 20], "rows_per_client": 10},
        training={"rounds": 12, "cohort": {"clients": 10}},
        fairness={"minimum_group_size": 30, "intervals": {"samples": 100}},
        gates=[{**gate, "value": 100}, {**odds, "value": 1.0, "allow_degenerate": True}],
    )
