"""A service with two experiments that have ended, to publish them elsewhere."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedaudit_client.client import Client
from tests.api.service import spec
from tests.cli.service import Service, clean_environment, running
from tests.processes import completed

SPEC = spec(
    name="small",
    seed=3,
    federation={"clients_per_group": [80, 20], "rows_per_client": 10},
    training={"rounds": 12, "cohort": {"clients": 10}},
    fairness={"minimum_group_size": 30, "intervals": {"samples": 100}},
    gates=[
        {"figure": "participations_max", "op": "le", "value": 12},
        {"figure": "leakage_max", "op": "le", "value": 40},
        {"figure": "equalized_odds_difference", "op": "le", "value": 0.0},
    ],
)
"""A gate that passes, one that lacks evidence, since the noise is simulated, and one that fails."""


@dataclass(frozen=True)
class Published:
    """What there is to publish."""

    service: Service
    client: Client
    simulated: str
    """The experiment whose model may not leave."""
    released: str
    """The one whose model may."""


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """A service and its experiments."""
    fixed = {"radius": 1.0, "clip": 0.5, "noise": "release"}
    released = {**SPEC, "name": "released: 1/2", "privacy": {**SPEC["privacy"], **fixed}}
    with (
        running(data_dir=tmp_path_factory.mktemp("service") / "data") as service,
        Client(service.url, service.api_key) as client,
    ):
        ended = [client.wait(client.submit(one)["id"]) for one in (SPEC, released)]
        assert [one["status"] for one in ended] == ["succeeded"] * 2, ended
        yield Published(service, client, ended[0]["id"], ended[1]["id"])


@pytest.fixture
def publish(there: Published, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs `fedaudit publish ... --json` away from the checkout and gives what it printed."""
    return partial(called, there, tmp_path)


def called(
    there: Published, folder: Path, *arguments: object, **environment: str
) -> dict[str, Any]:
    """What `fedaudit publish ... --json` printed, run in a folder."""
    command = [sys.executable, "-P", "-m", "fedaudit.cli.main", "publish"]
    done = completed(
        [*command, *map(str, arguments), "--json"],
        env=clean_environment(**there.service.environment, **environment),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed
