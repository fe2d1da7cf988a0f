"""Gates evaluated on demand, and policies that keep them under names."""

from typing import Any

import pytest

from tests.api.service import Api, finished

PATH = "/v1/gates/policies"
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


def _put(api: Api, name: str, *gates: dict[str, Any], **more: Any) -> Any:
    return api.request("PUT", f"{PATH}/{name}", json={"gates": list(gates or (LEAKAGE,)), **more})


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


def test_a_policy_is_stored_replaced_and_deleted(api: Api) -> None:
    made = _put(api, "release", description="Before a model\nleaves.")
    assert made.status_code == 201
    assert made.headers["location"] == f"{PATH}/release"
    stored = made.json()
    assert (stored["name"], stored["description"]) == ("release", "Before a model\nleaves.")
    # Every default is explicit.
    assert stored["gates"] == [
        {**LEAKAGE, "value": 40.0, "attribute": None, "allow_conditional": False}
    ]
    assert api.get(f"{PATH}/release").json() == stored
    # What a read gives can be put again.
    again = {field: stored[field] for field in ("name", "description", "gates")}
    assert api.request("PUT", f"{PATH}/release", json=again).status_code == 200
    replaced = _put(api, "release", STRICT)
    assert replaced.status_code == 200
    assert "location" not in replaced.headers
    assert replaced.json()["description"] == ""
    assert replaced.json()["created_at"] == stored["created_at"]
    assert replaced.json()["updated_at"] > stored["updated_at"]
    assert api.get(f"{PATH}/release").json() == replaced.json()
    assert api.request("DELETE", f"{PATH}/release").status_code == 204
    for response in (api.get(f"{PATH}/release"), api.request("DELETE", f"{PATH}/release")):
        assert response.status_code == 404
        assert response.json()["detail"] == "there is no such gate policy"


def test_the_list_is_by_name_and_of_one_project(api_on_both: Api) -> None:
    api = api_on_both
    for name in ("c", "a", "d", "b"):
        _put(api, name)
    foreign = api.key_with("reports:read", "experiments:write", project="another")
    assert api.get(PATH, key=foreign).json() == {"items": [], "next_cursor": None}
    first = api.get(f"{PATH}?limit=3").json()
    rest = api.get(f"{PATH}?limit=3&cursor={first['next_cursor']}").json()
    assert [one["name"] for one in first["items"] + rest["items"]] == ["a", "b", "c", "d"]
    assert rest["next_cursor"] is None
    assert api.get(f"{PATH}?cursor=nonsense").status_code == 422
    theirs = {"gates": [STRICT]}
    assert api.request("PUT", f"{PATH}/a", json=theirs, key=foreign).status_code == 201
    assert api.get(f"{PATH}/a").json()["gates"][0]["value"] == 40


@pytest.mark.parametrize(
    ("name", "body", "pointer"),
    [
        ("a", {"gates": []}, "/gates"),
        ("a", {}, "/gates"),
        ("a", {"gates": [{**LEAKAGE, "figure": "beauty"}]}, "/gates/0/figure"),
        ("a", {"gates": [{**LEAKAGE, "attribute": "sex"}]}, "/gates/0/attribute"),
        ("a", {"gates": [LEAKAGE] * 101}, "/gates"),
        ("a", {"gates": [LEAKAGE], "name": "b"}, "/name"),
        ("a", {"gates": [LEAKAGE], "experiment_id": "x"}, "/experiment_id"),
        ("a", {"gates": [LEAKAGE], "description": "a\x00"}, "/description"),
        ("-a", {"gates": [LEAKAGE]}, "/path/name"),
        ("a" * 65, {"gates": [LEAKAGE]}, "/path/name"),
        ("a%00", {"gates": [LEAKAGE]}, "/path/name"),
    ],
)
def test_what_is_no_policy_is_refused_by_its_field(api, name, body, pointer):
    response = api.request("PUT", f"{PATH}/{name}", json=body)
    assert response.status_code == 422
    assert pointer in [one["pointer"] for one in response.json()["errors"]]
    assert api.counts()["gate_policies"] == 0


def test_a_named_policy_is_evaluated_as_it_now_is(api: Api) -> None:
    id_ = finished(api)
    _put(api, "release")
    passed = _evaluate(api, experiment_id=id_, policy="release").json()
    assert (passed["policy"], passed["outcome"]) == ("release", "pass")
    _put(api, "release", LEAKAGE, STRICT)
    failed = _evaluate(api, experiment_id=id_, policy="release").json()
    assert [gate["outcome"] for gate in failed["gates"]] == ["pass", "fail"]
    # The same gates, given in the request, are the same function.
    given = _evaluate(api, experiment_id=id_, gates=[LEAKAGE, STRICT]).json()
    assert (given["policy"], given["gates"]) == (None, failed["gates"])
    assert _evaluate(api, experiment_id=id_).json()["policy"] is None


def test_what_cannot_be_evaluated(api: Api) -> None:
    id_ = api.submit()["id"]
    missing = _evaluate(api, experiment_id=id_, policy="nowhere")
    assert (missing.status_code, missing.json()["detail"]) == (404, "there is no such gate policy")
    both = _evaluate(api, experiment_id=id_, policy="a", gates=[LEAKAGE])
    assert both.status_code == 422
    assert both.json()["errors"][0]["pointer"] == "/policy"
    _put(api, "release")
    queued = _evaluate(api, experiment_id=id_, policy="release").json()
    [gate] = queued["gates"]
    assert (queued["outcome"], gate["value"]) == (LACKING, None)
    assert gate["reason"] == "the experiment has no report: it is queued"
    foreign = api.key_with("reports:read", project="another")
    path = "/v1/gates/evaluations"
    asked = {"experiment_id": id_, "policy": "release"}
    assert api.post(path, json=asked, key=foreign).status_code == 404
