"""A budget that is asked for, from the submission over HTTP to the report."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedaudit.reports.page.html import render
from fedaudit.spec.experiment import document_hash
from fedaudit.spec.parse import parse_spec
from tests.api.pages.browser import signed_in
from tests.api.pages.test_new_experiment import typed
from tests.api.service import Api, running_api, settings_for, spec
from tests.workers.serving import work

ASKED = 3.0


def asking() -> dict[str, Any]:
    """Four rounds of a trusted server, whose cohort is drawn by coins."""
    made = spec(
        training={"hypotheses": 1, "cohort": {"sampling": "poisson", "rate": 0.25}}, gates=[]
    )
    target = {"epsilon": ASKED, "delta": 1e-4}
    return {**made, "privacy": {"mechanism": "gaussian-central", "clip": 1.0, "target": target}}


@pytest.fixture
def api(sqlite_url: str, tmp_path: Path, signing_key_file: Path) -> Iterator[Api]:
    """A service that has a signing key, as its workers need."""
    settings = settings_for(sqlite_url, tmp_path, signing_key_file=signing_key_file)
    with running_api(settings) as made:
        yield made


def test_stored_spec_ledger_and_report_stay_within_it(api: Api) -> None:
    dry = api.check(asking()).json()
    [entry] = dry["projection"]["epsilon"]
    assert entry["value"] <= ASKED
    submitted = api.submit(asking())
    stored = submitted["spec"]
    assert stored == dry["spec"]
    assert stored["privacy"]["target"] == {"epsilon": ASKED, "delta": 1e-4}
    assert stored["privacy"]["noise_multiplier"] == dry["projection"]["noise_multiplier"]
    assert submitted["spec_hash"] == document_hash(stored)
    work(api, submitted["id"])
    path = f"/v1/experiments/{submitted['id']}"
    ledger = api.get(f"{path}/privacy-ledger.ndjson").text.splitlines()
    assert 0 < json.loads(ledger[-1])["epsilon"] <= ASKED
    report = api.get(f"{path}/report.json").json()
    assert report["spec"] == stored
    privacy = report["privacy"]
    assert (privacy["target"], privacy["target_projected"]) == (ASKED, entry["value"])
    assert privacy["epsilon_max"] <= privacy["target_projected"]
    assert "Budget asked for" in render(report)
    assert f"epsilon = {ASKED:g} " not in report["guarantee"]["statement"]
    verified = api.get(f"{path}/report/verification").json()
    assert verified["valid"], verified["checks"]
    assert "report.target_met" in {one["name"] for one in verified["checks"]}


def test_a_downloaded_spec_is_accepted_and_a_false_claim_is_not(api: Api) -> None:
    stored = api.submit(asking())["spec"]
    assert api.submit(stored)["spec"] == stored
    assert api.submit(parse_spec(asking()).model_dump(mode="json"))["spec"] == stored
    privacy = {**stored["privacy"], "noise_multiplier": stored["privacy"]["noise_multiplier"] / 2}
    answer = api.post("/v1/experiments", json={**stored, "privacy": privacy})
    assert answer.status_code == 422
    [fault] = answer.json()["errors"]
    assert fault["pointer"] == "/privacy/noise_multiplier"
    assert "does not meet privacy.target" in fault["message"]


def test_each_cell_of_a_sweep_is_solved_by_itself(api: Api) -> None:
    axis = "privacy.target.epsilon"
    made = {"name": "budgets", "base": asking(), "grid": {axis: [1.0, 2.0]}}
    cells = api.post("/v1/sweeps", json=made).json()["cells"]
    specs = [api.stored(one["experiment_id"]).spec["privacy"] for one in cells]
    assert [one["target"]["epsilon"] for one in specs] == [1.0, 2.0]
    assert specs[0]["noise_multiplier"] > specs[1]["noise_multiplier"]
    answer = api.post("/v1/sweeps", json={**made, "grid": {axis: [1e-5]}})
    assert answer.json()["errors"][0]["pointer"] == f"/grid/{axis}"


def test_the_form_has_a_budget_in_place_of_the_multiplier(api: Api) -> None:
    answer = signed_in(api).post("/experiments/new", typed(**{"/privacy/target/leakage": "2"}))
    # 4 rounds of 3 parameters: 12 / nu.
    assert "noise_multiplier: 6.0" in answer.text
    assert "leakage: 2" in answer.text
    assert "found for the budget that was asked for" in answer.text
