"""GET /v1/reports: found and sorted by any figure, page by page."""

from typing import Any

from fedaudit.reports.verdict.verdict import answer_by_codes
from models.repositories import ReportRepository
from tests.api.service import Api, body_of, fail, finished
from tests.api.stored_reports import Reports, gaps, leaks, spends

GAP = "equalized_odds_difference"


def items(api: Api, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(api.get(f"/v1/reports?{query}"))["items"]
    return found


def ids(api: Api, query: str = "") -> list[str]:
    """The ids, read one report a page."""
    found: list[str] = []
    cursor = ""
    while True:
        page = api.get(f"/v1/reports?{query}&limit=1{cursor}").json()
        found += [one["experiment"]["id"] for one in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = f"&cursor={page['next_cursor']}"


def test_a_report_is_listed_with_all_its_figures(api_on_both: Api) -> None:
    api = api_on_both
    api.submit()
    assert items(api) == []
    reports = Reports(api)
    [one] = items(api)
    document = api.get(one["href"]).json()
    experiment = api.get(f"/v1/experiments/{reports.first}").json()
    same = ("id", "name", "status", "created_at", "finished_at", "created_by", "tags")
    assert one["experiment"] == {name: experiment[name] for name in (*same, "federation_id")}
    for name in ("verdict", "answer", "gate_outcome"):
        assert one[name] == document[name]
    assert experiment["answer"] == answer_by_codes(document).model_dump()
    [listed] = api.get("/v1/experiments?status=succeeded").json()["items"]
    assert listed["answer"] == experiment["answer"]
    guarantee = {name: part for name, part in document["guarantee"].items() if name != "statement"}
    assert one["guarantee"] == guarantee
    figures = {(each["figure"], each["attribute"]): each for each in one["figures"]}
    for name in ("leakage_max", "leakage_median", "participations_max", "refusals"):
        assert figures[name, None]["value"] == document["privacy"][name]
    assert figures["validation_loss", None]["value"] == document["utility"]["validation_loss"]
    assert figures["accuracy", None]["reason"] == document["utility"]["reasons"]["accuracy"]
    for name, metric in document["fairness"][0]["metrics"].items():
        shown = figures[name, "group"]
        assert (shown["value"], shown["reason"]) == (metric["value"], metric["reason"])
    assert all(each["reason"] for each in one["figures"] if each["value"] is None)


def test_any_figure_bounds_and_sorts(api_on_both: Api) -> None:
    reports = Reports(api_on_both)
    low, middle = reports.add(leaks(1.5), name="low"), reports.first
    high = reports.add(leaks(40.0), name="high", tags=["kept"])
    federation = api_on_both.get(f"/v1/experiments/{low}").json()["federation_id"]
    expected = {
        "": [high, low, middle],
        "sort=leakage_max": [low, middle, high],
        "sort=-leakage_max&leakage_max[gte]=3": [high, middle],
        "leakage_max[lte]=3&leakage_max[gte]=2": [middle],
        "participations_max[lte]=2": [],
        "tag=kept": [high],
        "name=low&guarantee=heuristic&mechanism=laplace-l2": [low],
        "guarantee=formal": [],
        "gate_outcome=pass&sort=name": [middle, high, low],
        "unit=record": [],
        "created_after=2000-01-01&finished_before=2000-01-02": [],
        f"federation_id={federation}&sort=finished_at": [middle, low, high],
    }
    assert {query: ids(api_on_both, query) for query in expected} == expected


def test_a_gap_is_bounded_for_every_attribute_or_the_one_named(api_on_both: Api) -> None:
    reports = Reports(api_on_both)
    # One attribute in all reports needs no name.
    wide = reports.add(gaps(group=0.9))
    assert ids(api_on_both, f"sort=-{GAP}") == [wide, reports.first]
    fair = reports.add(gaps(sex=0.05, race=0.08))
    mixed = reports.add(gaps(sex=0.06, race=0.5))
    unknown = reports.add(gaps(sex=0.07, race=None))
    bound = f"{GAP}[lte]=0.1"
    assert ids(api_on_both, f"{bound}&created_after=2000-01-01") == [fair]
    assert ids(api_on_both, f"{bound}&attribute=sex") == [unknown, mixed, fair]
    assert ids(api_on_both, f"attribute=race&sort={GAP}") == [fair, mixed, unknown]
    assert ids(api_on_both, "attribute=age") == []
    [fault] = body_of(api_on_both.get(f"/v1/reports?sort={GAP}"), 422)["errors"]
    assert fault["pointer"] == "/query/attribute"
    assert "group, race, sex" in fault["message"]


def test_epsilons_are_asked_for_with_what_they_mean(api_on_both: Api) -> None:
    reports = Reports(api_on_both)
    both = reports.add(spends({"final_model": 1.0, "server": 4.0}))
    removal = reports.add(spends({"final_model": 2.0}, adjacency="add-or-remove-one"))
    other_delta = reports.add(spends({"server": 0.5}, delta=1e-3))
    assert ids(api_on_both, "epsilon_max[lte]=3&delta=1e-5") == [removal]
    assert ids(api_on_both, "epsilon_max[lte]=3&delta=1e-5&observer=final_model") == [removal, both]
    assert ids(api_on_both, "epsilon_max[lte]=3&delta=1e-5&adjacency=replace-one") == []
    assert ids(api_on_both, "sort=epsilon_max&delta=0.00001") == [removal, both]
    assert ids(api_on_both, "adjacency=replace-one") == [other_delta, both]
    assert reports.first not in ids(api_on_both, "observer=server")
    [one] = items(api_on_both, "adjacency=add-or-remove-one")
    [whole, of_observer] = [each for each in one["figures"] if each["figure"] == "epsilon_max"]
    assert (whole["observer"], of_observer["observer"]) == (None, "final_model")
    assert (whole["delta"], whole["adjacency"]) == (1e-5, "add-or-remove-one")
    # A leakage is another figure.
    assert ids(api_on_both, "leakage_max[lte]=100") == [reports.first]
    found = api_on_both.get("/v1/experiments?epsilon_max[lte]=9&delta=1e-5&adjacency=replace-one")
    assert [one["id"] for one in found.json()["items"]] == [both]
    found = api_on_both.get("/v1/experiments?sort=epsilon_max&delta=1e-5")
    assert [one["id"] for one in found.json()["items"]] == [removal, both]


# -- GET /v1/comparisons: reports side by side ----------------------------------------------------


def compared(api: Api, *ids: str, **options: Any) -> Any:
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
    # The axes may be named.
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
    first, other = finished(api), api.submit()["id"]
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
