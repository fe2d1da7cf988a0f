"""One spec, one seed, one ledger: in this process, embedded, and on Postgres with a broker.

Every kind of ledger goes through the same two services: metric privacy, whole and layer by layer,
and every mechanism with an epsilon.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from models.database import Database
from tests.cli.service import Service, clean_environment, running
from tests.end_to_end.ledger_checks import check_against_the_ledger, check_bundle
from tests.end_to_end.running_specs import run_here, run_on_threads, run_over_http
from tests.training.specs import groups_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
_GAUSSIAN = {"noise_multiplier": 2.0, "clip": 1.0, "delta": 1e-5}
_COINS = {"training__cohort": {"sampling": "poisson", "rate": 0.1}}
EPSILON_SPECS = {
    "central-by-coins": groups_spec(
        privacy={"mechanism": "gaussian-central", **_GAUSSIAN},
        training__clustering={"method": "reported"},
        **_COINS,
    ),
    "by-record": groups_spec(
        privacy={
            "mechanism": "record-personalised",
            "budgets": {"distribution": "bounded-pareto"},
            "delta": 1e-4,
        },
        training__hypotheses=1,
        training__loss="mse",
        training__local={"steps": 2, "step_size": 0.1},
        **_COINS,
    ),
}
LAYERED_SPEC = groups_spec(
    model={"kind": "mlp", "hidden": [3]},
    training__rounds=20,
    training__local={"step_size": 0.01},
    privacy={
        "mechanism": "laplace-l2",
        "noise_multiplier": 2.0,
        "per_layer": True,
        "client_budget": 30.0,
    },
)
SIZES = {"layer-1": 9, "layer-2": 4}
"""Two features to three units, and these to one output, with a bias each."""
NU = 2.0
Line = dict[str, Any]


def check_lines(lines: list[Line], privacy: dict[str, Any]) -> None:
    """The report's figures, layer by layer, from the ledger's lines alone."""
    releases: Counter[str] = Counter()
    most: dict[tuple[str, str], float] = {}
    refused = 0
    for line in lines:
        n = SIZES[line["component"]]
        key = line["subject"], line["component"]
        if line["outcome"] == "released":
            releases[line["subject"]] += line["component"] == "layer-1"
            assert line["leakage"] == n / NU
            assert line["epsilon"] == n / (NU * line["radius"])
            assert line["leakage_total"] == pytest.approx(releases[line["subject"]] * n / NU)
        else:
            refused += line["component"] == "layer-1"
            assert (line["leakage"], line["radius"]) == (None, None)
            assert line["reason"]
        most[key] = line["leakage_total"]
    assert Counter(line["component"] for line in lines) == dict.fromkeys(SIZES, 20 * 20)
    assert privacy["refusals"] == refused
    assert privacy["participations_max"] == max(releases.values()) == 4
    assert privacy["leakage_max"] == 4 * 13 / NU
    totals = [sum(most.get((subject, one), 0.0) for one in SIZES) for subject in releases]
    assert max(totals) == pytest.approx(privacy["leakage_max"])


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
def places(
    sources: Path,
    service: Service,
    production: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[Place]]:
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
    here = run_here(wanted, sources, tmp_path / "one")
    two_threads = run_on_threads(wanted, sources, tmp_path / "two", threads=2)
    hashes = {here["integrity"]["ledger_hash"], two_threads["integrity"]["ledger_hash"]}
    for place in places[name == "hospital" :]:
        experiment_id, report = run_over_http(place.service, wanted)
        database = Database(place.database_url)
        check_against_the_ledger(database, experiment_id, report, wanted)
        database.dispose()
        hashes.add(report["integrity"]["ledger_hash"])
        assert report["privacy"] == here["privacy"]
        assert report["fairness"] == here["fairness"]
    assert len(hashes) == 1


@pytest.mark.parametrize("name", list(EPSILON_SPECS))
def test_epsilons(name: str, places: list[Place], sources: Path, tmp_path: Path) -> None:
    here = run_here(EPSILON_SPECS[name], sources, tmp_path / "here")
    for place in places:
        experiment_id, report = run_over_http(place.service, EPSILON_SPECS[name])
        check_bundle(place.service, experiment_id, report, tmp_path / f"{place.name}.zip")
        assert report["integrity"]["ledger_hash"] == here["integrity"]["ledger_hash"]
        assert report["privacy"] == here["privacy"]
        assert report["fairness"] == here["fairness"]


def test_noise_layer_by_layer(places: list[Place], sources: Path, tmp_path: Path) -> None:
    here = run_here(LAYERED_SPEC, sources, tmp_path / "here")
    assert here["privacy"]["leakage_by_component"] == [
        {"component": name, "parameters": n, "leakage_per_release": n / NU}
        for name, n in SIZES.items()
    ]
    text = (tmp_path / "here" / "ledger.ndjson").read_text()
    check_lines([json.loads(line) for line in text.splitlines()], here["privacy"])

    service = places[0].service
    identifier, report = run_over_http(service, LAYERED_SPEC)
    assert report["integrity"]["ledger_hash"] == here["integrity"]["ledger_hash"]
    assert report["privacy"] == here["privacy"]
    assert report["guarantee"] == here["guarantee"]
    headers = {"Authorization": f"Bearer {service.api_key}"}
    base = f"{service.url}/v1/experiments/{identifier}"
    with httpx.Client(base_url=base, headers=headers, timeout=30) as client:
        lines = paged(client)
        check_lines(lines, report["privacy"])
        exported = client.get("/privacy-ledger.ndjson").text
        assert [json.loads(line) for line in exported.splitlines()] == lines
        table = list(csv.DictReader(io.StringIO(client.get("/privacy-ledger.csv").text)))
        assert [row["component"] for row in table] == [line["component"] for line in lines]
        subject = lines[0]["subject"]
        own = client.get("/privacy-ledger", params={"client": subject, "limit": 500}).json()
        assert own["items"] == [line for line in lines if line["subject"] == subject]
        checked = client.get("/report/verification").json()
        assert [one for one in checked["checks"] if one["outcome"] != "pass"] == []
        page = client.get("/report", headers={"Accept": "text/html"}).text
    assert "Each of the 2 layers" in page
    assert "Leakage of a release, layer-2" in page


def paged(client: httpx.Client) -> list[Line]:
    """All lines, by pages that end within a subject's layers."""
    lines: list[Line] = []
    cursor = None
    while True:
        parameters = {"limit": 333, **({"cursor": cursor} if cursor else {})}
        page = client.get("/privacy-ledger", params=parameters).json()
        lines += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return lines
