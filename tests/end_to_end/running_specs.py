"""One spec run in this process, and over HTTP by a service."""

import json
from pathlib import Path
from typing import Any

import httpx

from tests.cli.service import Service, clean_environment
from tests.preloaded import programs

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
