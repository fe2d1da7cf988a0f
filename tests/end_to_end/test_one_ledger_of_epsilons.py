"""Every mechanism with an epsilon: one ledger in this process, embedded, and in production."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.ed25519 import PublicKey
from fedaudit.ledger.ledger_context import rebuild_ledger_context
from fedaudit.ledger.rows import entry_of
from fedaudit.reports.verification.verification import verify
from tests.cli.service import Service, clean_environment, running
from tests.end_to_end.running_specs import run_here, run_over_http
from tests.training.specs import groups_spec

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
    ledger_context = rebuild_ledger_context(
        inputs, names, rounds=report["spec"]["training"]["rounds"]
    )
    found = dict.fromkeys(ledger_context.observers, 0.0)
    for entry in entries:
        epsilons = ledger_context.epsilons(entry.observer, entry.subjects, entry.releases)  # type: ignore[arg-type]
        assert epsilons is not None
        assert entry.epsilons is not None
        np.testing.assert_allclose(entry.epsilons, epsilons, rtol=1e-9)
        found[entry.observer] = max(found[entry.observer], epsilons.max(initial=0.0))  # type: ignore[index]
    stated = {one["observer"]: one["value"] for one in report["privacy"]["epsilon"]}
    assert stated == pytest.approx(found, rel=1e-9)
    assert report["privacy"]["epsilon_max"] == max(stated.values()) > 0


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
