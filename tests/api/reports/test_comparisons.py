"""GET /v1/comparisons: reports side by side."""

from typing import Any

from models.repositories import ReportRepository
from tests.api.service import Api, body_of, fail, finish
from tests.api.stored_reports import Reports, gaps, leaks


def compared(api: Api, *ids: str, **options: Any) -> Any:
    """The answer for these experiments."""
    return api.get("/v1/comparisons", params={"experiment_id": list(ids), **options})


def test_figures_specs_and_fronts_side_by_side(api: Api) -> None:
    reports = Reports(api)
    low = reports.add(leaks(1.0), privacy={"noise_multiplier": 9})
    leaking = reports.add(leaks(5.0))
    body = body_of(compared(api, reports.first, low, leaking))
    assert [one["id"] for one in body["experiments"]] == [reports.first, low, leaking]
    [row] = [one for one in body["figures"] if one["figure"] == "leakage_max"]
    assert [cell["value"] for cell in row["cells"]] == [3.0, 1.0, 5.0]
    assert row["differs"]
    [differs] = body["spec_differences"]
    assert differs["path"] == "privacy.noise_multiplier"
    assert [each["value"] for each in differs["values"]] == [3.0, 9.0, 3.0]
    assert body["warnings"] == []
    [front] = body["fronts"]
    assert front["front"] == [low]
    assert front["dominated_by"] == {reports.first: [low], leaking: [reports.first, low]}


def test_the_axes_may_be_named(api: Api) -> None:
    reports = Reports(api)
    other = reports.add(gaps(sex=0.2, race=None))
    body = compared(
        api, reports.first, other, fairness="equal_opportunity_ratio", utility="validation_loss"
    ).json()
    axes = [[axis["figure"] for axis in front["axes"]] for front in body["fronts"]]
    assert axes == [["leakage_max", "equal_opportunity_ratio", "validation_loss"]] * 3
    assert [front["axes"][1]["attribute"] for front in body["fronts"]] == ["group", "sex", "race"]
    assert body["fronts"][2]["front"] == []


def test_what_cannot_be_compared_is_refused(api: Api) -> None:
    reports = Reports(api)
    other, unknown = reports.add(), "01890000-0000-7000-8000-000000000000"
    for ids in ([], [other], [other, other], [other] * 51):
        [fault, *_] = body_of(compared(api, *ids), 422)["errors"]
        assert fault["pointer"].startswith("/query/experiment_id")
    for axis in ({"fairness": "fame"}, {"format": "x"}):
        assert compared(api, other, reports.first, **axis).status_code == 422
    queued, failed = api.submit()["id"], api.submit()["id"]
    fail(api, failed)
    for id_, said in (
        (unknown, f"{unknown}: there is no such"),
        (queued, "it is queued"),
        (failed, "it is failed"),
    ):
        assert said in body_of(compared(api, other, id_), 404)["detail"]


def test_a_report_that_was_altered_to_none(api: Api) -> None:
    first, other = api.submit()["id"], api.submit()["id"]
    finish(api, first)
    with api.database.write() as session:
        ReportRepository(session, api.project_id).put(
            other, document={"report_version": 1}, report_hash="a" * 64
        )
    assert "another version of fedaudit" in body_of(compared(api, first, other), 409)["detail"]
    path = f"/v1/experiments/{other}/report"
    assert api.get(f"{path}.json").json() == {"report_version": 1}
    assert api.get(f"{path}.html").status_code == 409
    gates = [{"figure": "accuracy", "op": "ge", "value": 0}]
    asked = {"experiment_id": other, "gates": gates}
    evaluated = api.post("/v1/gates/evaluations", json=asked).json()
    assert evaluated["outcome"] == "insufficient_evidence"
    assert "another version of fedaudit" in evaluated["gates"][0]["reason"]
    listed, _ = api.get("/v1/reports").json()["items"]
    named = (listed["experiment"]["id"], listed["verdict"], listed["guarantee"])
    assert named == (other, None, None)
    unknown = {"verdict", "guarantee", "gate_outcome", "largest_gap", "sign_off"}
    assert set(listed["reasons"]) == unknown
