"""Epsilons of fairness counts in the API: told, reserved against readers of reports, refused."""

from typing import Any

import pytest

from tests.api.budgets.test_epsilon_budgets import set_total
from tests.api.service import Api, spec

NOISE = {
    "mechanism": "gaussian",
    "epsilon": 0.5,
    "delta": 1e-6,
    "unit": "client",
    "max_rows_per_client": 10,
}


def noised(**noise: Any) -> dict[str, Any]:
    found = spec(training={"stopping": {"patience": None}}, gates=[])
    return {**found, "fairness": {**found["fairness"], "noise": {**NOISE, **noise}}}


def test_what_a_report_may_reveal_is_told_reserved_and_refused(api: Api) -> None:
    checked = api.post("/v1/experiments?validate_only=true", json=noised())
    assert checked.status_code == 200, checked.text
    projected = checked.json()["projection"]["fairness_epsilon"]
    assert projected["value"] == pytest.approx(0.5)
    assert {**projected, "value": None} == {
        "observer": "report",
        "delta": 1e-6,
        "adjacency": "add-or-remove-one",
        "unit": "client",
        "value": None,
    }
    federation_id = api.submit(noised())["federation_id"]
    key = {"delta": 1e-6, "adjacency": "add-or-remove-one", "observer": "report"}
    found = set_total(api, federation_id, 0.6, **key)
    assert found["reserved"] == pytest.approx(0.5, rel=1e-6)
    assert found["unit"] == "client"
    refused = api.post("/v1/experiments", json=noised())
    assert refused.status_code == 409
    assert "fairness.noise.epsilon" in refused.json()["detail"]
    exact = noised()
    exact["fairness"]["noise"] = None
    refused = api.post("/v1/experiments", json=exact)
    assert refused.status_code == 409
    assert refused.json()["observer"] == "report"
    checked = api.post("/v1/experiments?validate_only=true", json=exact)
    assert checked.json()["projection"]["fairness_epsilon"] is None
    assert "fairness.noise" in checked.json()["projection"]["reasons"]["fairness_epsilon"]


def test_a_total_of_training_takes_runs_whatever_their_reports_cost(api: Api) -> None:
    federation_id = api.submit(noised())["federation_id"]
    path = f"/v1/federations/{federation_id}/budget"
    body = {"book": "simulation", "figure": "leakage", "total": 1e6}
    assert api.request("PUT", path, json=body).status_code == 200
    assert api.submit(noised(epsilon=0.4))["federation_id"] == federation_id


def test_an_epsilon_that_cannot_be_shown_is_refused_at_its_field(api: Api) -> None:
    refused = api.post("/v1/experiments", json=noised(epsilon=0.001, delta=1e-12))
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/fairness/noise/epsilon"
