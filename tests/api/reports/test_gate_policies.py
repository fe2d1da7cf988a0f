"""Gates evaluated on demand."""

from typing import Any

import pytest

from tests.api.service import Api, finished

LEAKAGE = {
    "figure": "leakage_max",
    "op": "le",
    "value": 40,
    "allow_heuristic": True,
    "allow_simulation": True,
}
STRICT = {**LEAKAGE, "value": 0.5}
ODDS = {"figure": "equalized_odds_difference", "op": "le", "value": 0.9, "attribute": "group"}
LACKING = "insufficient_evidence"


def _evaluate(api: Api, **asked: Any) -> Any:
    return api.post("/v1/gates/evaluations", json=asked)


@pytest.mark.parametrize(
    ("gates", "outcomes", "overall"),
    [
        ([LEAKAGE, ODDS], ["pass", "pass"], "pass"),
        ([LEAKAGE, STRICT], ["pass", "fail"], "fail"),
        ([{**LEAKAGE, "allow_heuristic": False}], [LACKING], LACKING),
        ([{**ODDS, "attribute": "age"}], [LACKING], LACKING),
        (None, ["pass"], "pass"),
        ([], [], None),
    ],
)
def test_each_gate_has_its_outcome_and_reason(api, gates, outcomes, overall):
    id_ = finished(api)
    before = api.counts()
    body = _evaluate(api, experiment_id=id_, gates=gates).json()
    assert [gate["outcome"] for gate in body["gates"]] == outcomes
    assert body["outcome"] == overall
    assert all(gate["reason"] for gate in body["gates"])
    assert (body["reason"] is None) == (overall is not None)
    assert api.counts() == before


def test_what_cannot_be_evaluated(api: Api) -> None:
    id_ = api.submit()["id"]
    queued = _evaluate(api, experiment_id=id_, gates=[LEAKAGE]).json()
    [gate] = queued["gates"]
    assert (queued["outcome"], gate["value"]) == (LACKING, None)
    assert gate["reason"] == "the experiment has no report: it is queued"
    foreign = api.key_with("reports:read", project="another")
    asked = {"experiment_id": id_, "gates": [LEAKAGE]}
    assert api.post("/v1/gates/evaluations", json=asked, key=foreign).status_code == 404
