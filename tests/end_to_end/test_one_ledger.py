"""One spec, one seed, one ledger: in this process, embedded, and on Postgres with a broker.

Every mechanism is compared with the service in `test_service_equals_local.py`.
"""

from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from models.database import Database
from tests.cli.service import Service, clean_environment, running
from tests.end_to_end.ledger_checks import check_against_the_ledger
from tests.end_to_end.running_specs import run_here, run_over_http
from tests.training.specs import groups_spec

EXAMPLES = Path(__file__).parents[2] / "examples"


class Place(NamedTuple):
    """A running service, and the database that it writes to."""

    name: str
    service: Service
    database_url: str


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The real data, or an empty folder where they are absent."""
    try:
        found: Path = request.getfixturevalue("data_dir")
    except pytest.skip.Exception:
        return tmp_path_factory.mktemp("sources")
    return found


@pytest.fixture(scope="module")
def places(sources, service, production, tmp_path_factory):
    """`fedaudit up` by itself, and on Postgres and a broker, where the real data are as well."""
    environment = clean_environment(FEDAUDIT_SOURCES_DIR=str(sources), **production)
    with running(data_dir=tmp_path_factory.mktemp("production"), environment=environment) as other:
        yield [
            Place("embedded", service, f"sqlite:///{service.data_dir}/fedaudit.db"),
            Place("production", other, production["FEDAUDIT_DATABASE_URL"]),
        ]


@pytest.mark.parametrize("name", ["synthetic-groups", "hospital"])
def test_metric_privacy(name, places, sources, tmp_path, request):
    if name == "hospital":
        request.getfixturevalue("data_dir")  # skips where it is absent
        wanted = yaml.safe_load((EXAMPLES / "hospital.yaml").read_text())
    else:
        wanted = groups_spec(privacy__client_budget=15.0, training__rounds=60)
    here = run_here(wanted, sources, tmp_path / "here")
    hashes = {here["integrity"]["ledger_hash"]}
    for place in places[name == "hospital" :]:
        experiment_id, report = run_over_http(place.service, wanted)
        database = Database(place.database_url)
        check_against_the_ledger(database, experiment_id, report, wanted)
        database.dispose()
        hashes.add(report["integrity"]["ledger_hash"])
        assert report["privacy"] == here["privacy"]
        assert report["fairness"] == here["fairness"]
    assert len(hashes) == 1
