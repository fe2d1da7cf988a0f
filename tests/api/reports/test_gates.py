"""Gates evaluated on demand."""

import pytest

from tests.api.service import Api, finish, spec

LEAKAGE = {
    "figure": "leakage_max",
    "op": "le",
    "value": 40,
    "allow_heuristic": True,
    "allow_simulation": True,
}
ODDS = {"figure": "equalized_odds_difference", "op": "le", "value": 0.9, "attribute": "group"}


def _evaluate(api: Api, experiment_id: str, gates: list | None = None) -> dict:
    body = {"experiment_id": experiment_id, "gates": gates}
    response = api.post("/v1/gates/evaluations", json=body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.mark.parametrize(
    ("gates", "outcomes", "overall"),
    [
        ([LEAKAGE, ODDS], ["pass", "pass"], "pass"),
        ([LEAKAGE, {**LEAKAGE, "value": 0.5}], ["pass", "fail"], "fail"),
        (
            [{**LEAKAGE, "allow_heuristic": False}],
            ["insufficient_evidence"],
            "insufficient_evidence",
        ),
        ([{**ODDS, "attribute": "age"}], ["insufficient_evidence"], "insufficient_evidence"),
        (None, ["pass"], "pass"),
        ([], [], None),
    ],
)
def test_each_gate_has_its_outcome_and_reason(
    api: Api, gates: list | None, outcomes: list[str], overall: str | None
) -> None:
    id_ = api.submit()["id"]
    finish(api, id_)
    before = api.counts()
    body = _evaluate(api, id_, gates)
    assert [gate["outcome"] for gate in body["gates"]] == outcomes
    assert body["outcome"] == overall
    assert all(gate["reason"] for gate in body["gates"])
    assert (body["reason"] is None) == (overall is not None)
    assert api.counts() == before


def test_without_a_report_there_is_no_evidence(api: Api) -> None:
    id_ = api.submit(spec(gates=[LEAKAGE]))["id"]
    body = _evaluate(api, id_)
    assert body["outcome"] == "insufficient_evidence"
    [gate] = body["gates"]
    assert gate["value"] is None
    assert gate["reason"] == "the experiment has no report: it is queued"
