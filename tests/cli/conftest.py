"""The command line as a person calls it, in a process of its own."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.service import SCRIPT, Service, clean_environment, running
from tests.preloaded import programs

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
        return subprocess.run(
            [str(SCRIPT), *map(str, arguments)],
            input=stdin,
            env=clean_environment(**(env or {})),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    return call


@pytest.fixture(scope="module")
def own_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A running `fedaudit up` for the tests of one module alone."""
    with running(data_dir=tmp_path_factory.mktemp("service") / "data") as service:
        yield service


@pytest.fixture
def small_spec() -> dict[str, Any]:
    """An experiment of a second."""
    return {
        "spec_version": 1,
        "name": "small",
        "seed": 3,
        "federation": {
            "source": "synthetic-groups",
            "clients_per_group": [80, 20],
            "rows_per_client": 10,
            "validation_fraction": 0.5,
        },
        "model": {"kind": "linear"},
        "training": {"loss": "rmse", "hypotheses": 2, "rounds": 12, "cohort": {"clients": 10}},
        "privacy": {"mechanism": "laplace-l2", "noise_multiplier": 3},
        "fairness": {
            "sensitive": ["group"],
            "favourable": [
                {"group": {"group": "g1"}, "op": "ge", "value": 0},
                {"group": {"group": "g2"}, "op": "le", "value": 15},
            ],
            "intervals": {"samples": 100},
        },
        "gates": [
            {
                "figure": "leakage_max",
                "op": "le",
                "value": 100,
                "allow_heuristic": True,
                "allow_simulation": True,
            },
            {
                "figure": "equalized_odds_difference",
                "op": "le",
                "value": 1.0,
                "allow_degenerate": True,
            },
        ],
    }
