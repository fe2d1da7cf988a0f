"""One spec, one seed, one ledger: in this process, embedded, and on Postgres with Redis."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml
from sqlalchemy import text

from fedaudit.ledger.accounts import stored_account
from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.keys import PublicKey
from fedaudit.ledger.rows import entry_of
from fedaudit.reports.verification import verify
from models.database import Database
from tests.cli.service import SCRIPT, Service, clean_environment, running
from tests.training.specs import groups_spec

EXAMPLES = Path(__file__).parents[2] / "examples"
FINISHED_SECONDS = 120


_GAUSSIAN = {"noise_multiplier": 2.0, "clip": 1.0, "delta": 1e-5}
_COINS = {"training__cohort": {"sampling": "poisson", "rate": 0.1}}
EPSILON_SPECS = {
    "central": groups_spec(
        privacy={"mechanism": "gaussian-central", **_GAUSSIAN},
        training__clustering={"method": "reported"},
    ),
    "central-by-coins": groups_spec(
        privacy={"mechanism": "gaussian-central", **_GAUSSIAN},
        training__clustering={"method": "reported"},
        **_COINS,
    ),
    "local": groups_spec(
        privacy={"mechanism": "gaussian-local", **_GAUSSIAN, "epsilon_budget": 6.0},
        training__hypotheses=1,
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


@pytest.fixture(params=["synthetic-groups", "hospital"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """A spec and the folder that its data lies below."""
    if request.param == "hospital":
        data_dir: Path = request.getfixturevalue("data_dir")
        yield yaml.safe_load((EXAMPLES / "hospital.yaml").read_text()), data_dir
    else:
        yield groups_spec(privacy__client_budget=15.0, training__rounds=60), tmp_path


def run_here(spec: dict[str, Any], sources: Path, out: Path, *, threads: int) -> dict[str, Any]:
    environment = clean_environment(OMP_NUM_THREADS=str(threads), FEDAUDIT_SOURCES_DIR=str(sources))
    finished = subprocess.run(
        [SCRIPT, "run", "-", "--json", "--out", out],
        input=json.dumps(spec),
        env=environment,
        capture_output=True,
        text=True,
        timeout=FINISHED_SECONDS,
        check=False,
    )
    assert finished.returncode in (0, 1), finished.stderr  # 1: a gate of the spec failed
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


def run_over_http(service: Service, spec: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The experiment's id and its report."""
    headers = {"Authorization": f"Bearer {service.api_key}"}
    with httpx.Client(base_url=f"{service.url}/v1", headers=headers, timeout=30) as client:
        submitted = client.post("/experiments", json=spec)
        assert submitted.status_code == 202, submitted.text
        identifier = submitted.json()["id"]
        with client.stream(
            "GET", f"/experiments/{identifier}/events", timeout=FINISHED_SECONDS
        ) as events:
            for _ in events.iter_lines():
                pass
        experiment = client.get(f"/experiments/{identifier}").json()
        assert experiment["status"] == "succeeded", experiment
        report: dict[str, Any] = client.get(f"/experiments/{identifier}/report").json()
        return identifier, report


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
        SELECT last.cluster, count(*) AS clients, max(total) AS leakage_max
        FROM privacy_ledger AS last
        JOIN (SELECT subject, max(round) AS round, max(leakage_total) AS total
              FROM privacy_ledger WHERE experiment_id = :id AND outcome = 'released'
              GROUP BY subject) AS ends ON ends.subject = last.subject AND ends.round = last.round
        WHERE last.experiment_id = :id GROUP BY last.cluster ORDER BY last.cluster
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


def test_here_embedded_and_in_production(
    spec: tuple[dict[str, Any], Path], tmp_path: Path, postgres_url: str, broker_url: str
) -> None:
    wanted, sources = spec
    here = run_here(wanted, sources, tmp_path / "one", threads=1)
    two_threads = run_here(wanted, sources, tmp_path / "two", threads=2)
    hashes = {here["integrity"]["ledger_hash"], two_threads["integrity"]["ledger_hash"]}
    production = {"FEDAUDIT_DATABASE_URL": postgres_url, "FEDAUDIT_BROKER_URL": broker_url}
    for name, servers in (("embedded", {}), ("production", production)):
        environment = clean_environment(FEDAUDIT_SOURCES_DIR=str(sources), **servers)
        with running(data_dir=tmp_path / name, environment=environment) as service:
            experiment_id, report = run_over_http(service, wanted)
        url = servers.get("FEDAUDIT_DATABASE_URL", f"sqlite:///{tmp_path / name}/fedaudit.db")
        database = Database(url)
        check_against_the_ledger(database, experiment_id, report, wanted)
        database.dispose()
        hashes.add(report["integrity"]["ledger_hash"])
        assert report["privacy"] == here["privacy"]
        assert report["fairness"] == here["fairness"]
    assert len(hashes) == 1


def check_bundle(service: Service, experiment_id: str, report: dict[str, Any], path: Path) -> None:
    """The epsilons of the report follow from the events and counts of the exported ledger."""
    headers = {"Authorization": f"Bearer {service.api_key}"}
    with httpx.Client(base_url=f"{service.url}/v1", headers=headers, timeout=30) as client:
        path.write_bytes(client.get(f"/experiments/{experiment_id}/bundle").content)
        [key] = client.get("/signing-keys").json()["items"]
    trusted = PublicKey.from_pem(key["public_key"].encode())
    with opened_bundle(path) as evidence:
        verification = verify(evidence, trusted=[trusted])
    failed = [one for one in verification.checks if one.outcome != "pass"]
    assert verification.verdict == "valid", failed
    with opened_bundle(path) as evidence:
        entries = [entry_of(row) for row in evidence.rows]  # type: ignore[arg-type]
        names = evidence.names
    [inputs] = {entry.inputs for entry in entries}
    account = stored_account(inputs, names, rounds=report["spec"]["training"]["rounds"])
    found = dict.fromkeys(account.observers, 0.0)
    for entry in entries:
        epsilons = account.epsilons(entry.observer, entry.subjects, entry.releases)  # type: ignore[arg-type]
        assert epsilons is not None
        assert entry.epsilons is not None
        np.testing.assert_allclose(entry.epsilons, epsilons, rtol=1e-9)
        found[entry.observer] = max(found[entry.observer], epsilons.max(initial=0.0))  # type: ignore[index]
    told = {one["observer"]: one["value"] for one in report["privacy"]["epsilon"]}
    assert told == pytest.approx(found, rel=1e-9)
    assert report["privacy"]["epsilon_max"] == max(told.values()) > 0


def test_every_epsilon_here_embedded_and_in_production(
    tmp_path: Path, postgres_url: str, broker_url: str
) -> None:
    here = {
        name: run_here(spec, tmp_path, tmp_path / name, threads=1)
        for name, spec in EPSILON_SPECS.items()
    }
    production = {"FEDAUDIT_DATABASE_URL": postgres_url, "FEDAUDIT_BROKER_URL": broker_url}
    for place, servers in (("embedded", {}), ("production", production)):
        environment = clean_environment(FEDAUDIT_SOURCES_DIR=str(tmp_path), **servers)
        with running(data_dir=tmp_path / place, environment=environment) as service:
            for name, spec in EPSILON_SPECS.items():
                experiment_id, report = run_over_http(service, spec)
                path = tmp_path / f"{place}-{name}.zip"
                check_bundle(service, experiment_id, report, path)
                assert report["integrity"]["ledger_hash"] == here[name]["integrity"]["ledger_hash"]
                assert report["privacy"] == here[name]["privacy"]
                assert report["fairness"] == here[name]["fairness"]
