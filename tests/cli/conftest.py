"""The command line as a person calls it, in a process of its own."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.service import SPEC, spec
from tests.cli.service import Service, clean_environment
from tests.preloaded import programs

Done = subprocess.CompletedProcess[str]
Command = Callable[..., Done]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs `fedaudit ARGUMENTS` away from the checkout; `env` sets variables."""

    def call(*arguments: object, stdin: str = "", env: dict[str, str] | None = None) -> Done:
        environment = clean_environment(**(env or {}))
        words = map(str, arguments)
        return programs().run(*words, stdin=stdin, env=environment, cwd=tmp_path, timeout=120)

    return call


@pytest.fixture
def call(command: Command, service: Service) -> Command:
    """Runs a command against the module's service; keywords set variables."""

    def run(*arguments: object, stdin: str = "", **env: str) -> Done:
        return command(*arguments, stdin=stdin, env={**service.environment, **env})

    return run


@pytest.fixture
def said(call: Command) -> Callable[..., str]:
    """The same of a command that ends well: what it prints."""

    def run(*arguments: object, **options: str) -> str:
        done = call(*arguments, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def json_of(said: Callable[..., str]) -> Callable[..., Any]:
    """The same of one that prints JSON."""
    return lambda *arguments, **options: json.loads(said(*arguments, **options))


@pytest.fixture
def small_spec() -> dict[str, Any]:
    """An experiment of a second."""
    gate, odds = SPEC["gates"][0], {"figure": "equalized_odds_difference", "op": "le"}
    return spec(
        name="small",
        seed=3,
        federation={"clients_per_group": [80, 20], "rows_per_client": 10},
        training={"rounds": 12, "cohort": {"clients": 10}},
        fairness={"minimum_group_size": 30},
        gates=[{**gate, "value": 100}, {**odds, "value": 1.0, "allow_degenerate": True}],
    )


def assert_refused(done: Done, *words: str, code: int = 2) -> None:
    """A command names what is wrong, without a traceback."""
    assert done.returncode == code, done.stdout + done.stderr
    text = " ".join(done.stderr.split())
    assert [one for one in words if one not in text] == [], done.stderr
    assert "Traceback" not in done.stderr
