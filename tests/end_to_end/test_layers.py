"""Noise layer by layer through the front door: in this process, and in a running service."""

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.service import clean_environment, running
from tests.end_to_end.running_specs import run_here, run_over_http
from tests.training.specs import groups_spec

SPEC = groups_spec(
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
    """The report's figures, from the ledger's lines alone."""
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


def test_here_and_in_a_service(tmp_path: Path) -> None:
    here = run_here(SPEC, tmp_path, tmp_path / "here", threads=1)
    assert here["privacy"]["leakage_by_component"] == [
        {"component": name, "parameters": n, "leakage_per_release": n / NU}
        for name, n in SIZES.items()
    ]
    text = (tmp_path / "here" / "ledger.ndjson").read_text()
    check_lines([json.loads(line) for line in text.splitlines()], here["privacy"])

    with running(data_dir=tmp_path / "data", environment=clean_environment()) as service:
        identifier, report = run_over_http(service, SPEC)
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
    assert "Leakage of one release, layer-2" in page


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
