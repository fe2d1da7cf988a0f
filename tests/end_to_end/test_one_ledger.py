"""One spec, one seed, one ledger: in this process, embedded, and on Postgres with a broker.

Every mechanism is compared with the service in `test_service_equals_local.py`.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
import yaml
from sqlalchemy import text

from models.database import Database
from tests.api.answers import body_of
from tests.cli.service import Service, clean_environment, running
from tests.preloaded import programs
from tests.training.specs import groups_spec


def figures_by_sql(database: Database, experiment_id: str) -> dict[str, Any]:
    """The report's privacy figures, from nothing but the ledger's view."""
    query = text(
        """
        SELECT max(leakage_total) AS leakage_max,
               sum(CASE WHEN outcome = 'refused' THEN 1 ELSE 0 END) AS refusals,
               sum(CASE WHEN outcome = 'withheld' THEN 1 ELSE 0 END) AS withheld,
               max(round) AS rounds
        FROM privacy_ledger WHERE experiment_id = :id
        """
    )
    per_subject = text(
        """
        SELECT max(leakage_total) AS total, sum(CASE WHEN outcome = 'released' THEN 1 ELSE 0 END)
               AS releases, max(leakage) AS each
        FROM privacy_ledger WHERE experiment_id = :id GROUP BY subject
        """
    )
    per_cluster = text(
        """
        SELECT cluster, count(*) AS clients, max(leakage_total) AS leakage_max
        FROM (SELECT cluster, leakage_total,
                     row_number() OVER (PARTITION BY subject ORDER BY round DESC) AS newest
              FROM privacy_ledger WHERE experiment_id = :id AND outcome = 'released') AS releases
        WHERE newest = 1 GROUP BY cluster ORDER BY cluster
        """
    )
    with database.read() as session:
        clusters = session.execute(per_cluster, {"id": experiment_id}).mappings().all()
        figures = dict(session.execute(query, {"id": experiment_id}).mappings().one())
        subjects = session.execute(per_subject, {"id": experiment_id}).mappings().all()
    figures["participations_max"] = max(row["releases"] for row in subjects)
    figures["subjects"] = [dict(row) for row in subjects]
    figures["leakage_by_cluster"] = [dict(row) for row in clusters]
    return figures


def check_against_the_ledger(
    database: Database, experiment_id: str, report: dict[str, Any], spec: dict[str, Any]
) -> None:
    figures = figures_by_sql(database, experiment_id)
    privacy, nu = report["privacy"], spec["privacy"]["noise_multiplier"]
    n = report["data"]["parameters"]
    for name in ("leakage_max", "refusals", "withheld", "participations_max"):
        assert figures[name] == privacy[name], name
    assert figures["rounds"] == report["utility"]["rounds"]
    for subject in figures["subjects"]:
        # Exactly, not approximately: the number of releases times n / nu.
        assert subject["total"] == subject["releases"] * n / nu
    totals = sorted(subject["total"] for subject in figures["subjects"])
    totals = [0.0] * (report["data"]["training_clients"] - len(totals)) + totals
    middle = len(totals) // 2
    median = totals[middle] if len(totals) % 2 else (totals[middle - 1] + totals[middle]) / 2
    assert median == pytest.approx(privacy["leakage_median"], rel=1e-15)
    for name, quantile in privacy["leakage_quantiles"].items():
        share = int(name.removeprefix("p")) / 100
        assert np.quantile(totals, share) == pytest.approx(quantile, rel=1e-12), name
    reported = [
        {name: row[name] for name in ("cluster", "clients", "leakage_max")}
        for row in privacy["leakage_by_cluster"]
    ]
    assert figures["leakage_by_cluster"] == reported


FINISHED_SECONDS = 120


def run_here(spec: dict[str, Any], sources: Path, out: Path) -> dict[str, Any]:
    """The report of `fedaudit run`."""
    finished = programs().run(
        *("run", "-", "--json", "--out", str(out)),
        stdin=json.dumps(spec),
        env=clean_environment(FEDAUDIT_SOURCES_DIR=str(sources)),
        cwd=out.parent,
        timeout=FINISHED_SECONDS,
    )
    # 1: a gate of the spec failed; 3: it had no evidence, as over a model that decides nothing
    assert finished.returncode in (0, 1, 3), finished.stderr
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


def run_over_http(service: Service, spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The experiment's id and its report."""
    headers = {"Authorization": f"Bearer {service.api_key}"}
    with httpx.Client(base_url=f"{service.url}/v1", headers=headers, timeout=30) as client:
        identifier = body_of(client.post("/experiments", json=spec), 202)["id"]
        with client.stream(
            "GET", f"/experiments/{identifier}/events", timeout=FINISHED_SECONDS
        ) as events:
            for _ in events.iter_lines():
                pass
        experiment = client.get(f"/experiments/{identifier}").json()
        assert experiment["status"] == "succeeded", experiment
        report: dict[str, Any] = client.get(f"/experiments/{identifier}/report").json()
        return identifier, report


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
