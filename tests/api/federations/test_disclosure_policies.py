"""What an owner lets anyone ask of a federation's groups: the attacks that two reports make."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.service import SPEC, Api, body_of, fail, running_api, settings_for, spec
from tests.api.uploads import CONTENT, make_ready, parts, registration, spec_of, upload

RULE = {"op": "ge", "value": 50}
AGES = registration(
    federation={"features": ["age"]},
    fairness={"sensitive": ["group", "age"], "edges": {"age": [20]}, "minimum_group_size": 30},
)
"""Of the ages 0 to 39, each of one client with three rows."""


@pytest.fixture
def federation(api: Api) -> dict[str, Any]:
    found = upload(api, value=AGES)
    make_ready(api, found["id"])
    return found


def put(api: Api, federation_id: str, policy: Any, **options: Any) -> Any:
    return api.request("PUT", f"/v1/federations/{federation_id}/disclosure", json=policy, **options)


def set_policy(api: Api, federation_id: str, **policy: Any) -> dict[str, Any]:
    return dict(body_of(put(api, federation_id, policy)))


def asking(
    federation: dict[str, Any], fairness: dict[str, Any] | None = None, **changes: Any
) -> dict[str, Any]:
    """An experiment on the table that looks at ages, cut at 20."""
    value = spec_of({**AGES["federation"], "id": federation["id"]}, **changes)
    value["fairness"] = {**AGES["fairness"], "favourable": RULE, **(fairness or {})}
    value["gates"] = []
    return value


def refused(api: Api, value: dict[str, Any], **options: Any) -> dict[str, str]:
    """The faults of a submission, by pointer; its validation has the same."""
    with api.unchanged():
        answers = [
            api.post(path, json=value, **options)
            for path in ("/v1/experiments", "/v1/experiments?validate_only=true")
        ]
        assert [answer.status_code for answer in answers] == [422, 422], answers[0].text
        assert answers[0].json()["errors"] == answers[1].json()["errors"]
    return {fault["pointer"]: fault["message"] for fault in answers[0].json()["errors"]}


def test_two_edges_whose_difference_is_one_age_are_refused(api, federation):
    """Groups below 20 and below 21: one less the other is the single client of age 20."""
    first, second = (asking(federation, {"edges": {"age": [edge]}}) for edge in (20, 21))
    body_of(api.check(second))
    set_policy(api, federation["id"], edges={"age": [20]})
    api.submit(first)
    faults = refused(api, second)
    assert faults.keys() == {"/fairness/edges/age"}
    assert "set it to [20.0]" in faults["/fairness/edges/age"]
    # Neither is an attribute cut that the policy does not name, nor one left whole that it cuts.
    assert refused(api, asking(federation, {"edges": {}})).keys() == {"/fairness/edges/age"}
    set_policy(api, federation["id"], edges={})
    assert "leave it out" in refused(api, first)["/fairness/edges/age"]


def test_one_held_out_client_more_is_refused(api: Api, federation: dict[str, Any]) -> None:
    """20 and 21 of 40 clients, drawn by one seed: base counts of the two differ by one client."""
    split = {"validation_fraction": 0.5, "seed": 7}
    first, second, third = asking(federation), asking(federation), asking(federation, seed=8)
    second["federation"]["validation_fraction"] = 21 / 40
    fourth = asking(federation)
    fourth["federation"]["scoring"] = {"method": "split", "fraction": 0.5}
    checked = body_of(api.check(second))
    assert checked["training_clients"] == 19
    set_policy(api, federation["id"], split=split)
    api.submit(first)
    assert "set it to 0.5" in refused(api, second)["/federation/validation_fraction"]
    assert "set it to 7" in refused(api, third)["/seed"]
    assert refused(api, fourth).keys() == {"/federation/scoring"}


def test_rounds_score_the_sample_that_the_policy_demands(api: Api, federation) -> None:
    value = asking(federation)
    value["training"]["stopping"] = {"validation_clients": 10}
    split = {"validation_fraction": 0.5, "seed": 7}
    set_policy(api, federation["id"], split=split)
    faults = refused(api, value)
    assert "leave it out" in faults.pop("/training/stopping/validation_clients")
    assert faults == {}
    set_policy(api, federation["id"], split={**split, "validation_clients": 10})
    api.submit(value)
    assert (
        "set it to 10" in refused(api, asking(federation))["/training/stopping/validation_clients"]
    )


def test_another_profile_or_other_columns_are_refused(api: Api, federation) -> None:
    """Base rates of two profiles give one client's outcomes, without a run and without a budget."""
    binding = {"edges": {"age": [20]}, "minimum_group_size": 30, "source": "registered"}
    set_policy(api, federation["id"], **binding)
    api.submit(asking(federation))
    with api.unchanged():
        # Without the rows that have an empty cell it has another held-out set.
        without = {"features": [{"name": "age", "missing": "drop-row"}]}
        for section, change, pointer in (
            ("fairness", {"edges": {"age": [21]}}, "/fairness/edges/age"),
            ("fairness", {"minimum_group_size": 29}, "/fairness/minimum_group_size"),
            ("federation", without, "/federation/features"),
        ):
            other = {**AGES, section: {**AGES[section], **change}}
            refusal = body_of(api.post("/v1/federations", files=parts(CONTENT, other)), 422)
            assert [fault["pointer"] for fault in refusal["errors"]] == [pointer]
            value = asking(federation)
            value[section] |= change
            assert refused(api, value).keys() == {pointer}
    assert api.get(f"/v1/federations/{federation['id']}").json()["status"] == "ready"


def test_the_policy_stays_with_the_content(api_on_both: Api) -> None:
    api = api_on_both
    first = upload(api, value=AGES)
    make_ready(api, first["id"])
    set_policy(api, first["id"], minimum_group_size=31, edges={"age": [20]})
    # Registered again under another name, and uploaded once more after it was deleted.
    again = {**AGES, "name": "again", "fairness": {**AGES["fairness"], "minimum_group_size": 40}}
    assert upload(api, value=again)["id"] == first["id"]
    make_ready(api, first["id"])
    assert api.request("DELETE", f"/v1/federations/{first['id']}").status_code == 204
    assert api.post("/v1/federations", files=parts(CONTENT, AGES)).status_code == 422
    back = upload(api, value=again)
    assert back["disclosure"] == {"minimum_group_size": 31, "edges": {"age": [20.0]}}
    make_ready(api, back["id"])
    assert "/fairness/minimum_group_size" in refused(api, asking(back))


def test_a_file_that_is_named_by_its_path_has_the_policy_of_its_content(api: Api) -> None:
    api.put_source("incomes.csv", CONTENT)
    value = asking({"id": ""})
    value["federation"] = {**value["federation"], "id": None, "path": "incomes.csv"}
    set_policy(api, api.submit(value)["federation_id"], minimum_group_size=31)
    assert "31" in refused(api, value)["/fairness/minimum_group_size"]


def test_rows_are_left_out_only_where_every_report_leaves_them_out(api: Api, federation) -> None:
    """Otherwise a report that counts them, asked for by anyone later, gives their figures."""
    left_out, edges = {"age": ["10 to <20"]}, {"age": [10, 20]}
    value = asking(federation, {"edges": edges, "exclude": left_out})
    faults = refused(api, value)
    assert faults.keys() == {"/fairness/exclude"}
    assert "disclosure policy" in faults["/fairness/exclude"]
    set_policy(api, federation["id"], exclude=left_out)
    assert api.post("/v1/experiments", json=value).status_code == 202
    assert "/fairness/exclude" in refused(api, asking(federation, {"edges": edges}))


GROUPS, CROSSED = {"group": {"letter": ["a"]}}, [["group", "age"]]
BINDING: tuple[tuple[dict[str, Any], dict[str, Any], str, str], ...] = (
    ({"minimum_group_size": 40}, {}, "minimum_group_size", "set it to 40 or more"),
    ({"minimum_group_clients": 3}, {}, "minimum_group_clients", "to 3 or more"),
    ({"favourable": {"op": "ge", "value": 51}}, {}, "favourable", '"value": 51'),
    ({"favourable": RULE}, {"favourable": None}, "favourable", '"value": 50'),
    ({"sensitive": ["group"]}, {}, "sensitive/1", "(group)"),
    ({"exclude": {"group": ["b"]}}, {}, "exclude", 'set it to {"group": ["b"]}'),
    ({"groups": {}}, {"groups": GROUPS}, "groups/group", "leave it out"),
    ({"intersections": []}, {"intersections": CROSSED}, "intersections/0", "leave it out"),
)


def test_what_is_set_binds_and_names_what_it_demands(api: Api, federation) -> None:
    for policy, fairness, field, words in BINDING:
        value = asking(federation, fairness)
        set_policy(api, federation["id"], **policy)
        faults = refused(api, value)
        assert [*faults] == [f"/fairness/{field}"]
        assert words in faults[f"/fairness/{field}"]
    # A key without the data reads what is demanded, and no more.
    set_policy(api, federation["id"], minimum_group_size=40)
    faults = refused(api, asking(federation), key=api.key_with("experiments:write"))
    assert [*faults] == ["/fairness/minimum_group_size"]
    assert "set it to 40 or more" in faults["/fairness/minimum_group_size"]


def test_what_agrees_is_admitted(api: Api, federation: dict[str, Any]) -> None:
    policy = {
        "minimum_group_size": 30,
        "minimum_group_clients": 2,
        "edges": {"age": [20], "income": [10]},
        "favourable": {"op": "ge", "value": 50.0},
        "sensitive": ["age", "group", "income"],
        "intersections": [["age", "group"]],
        "split": {"validation_fraction": 0.5, "seed": 7},
        "source": "registered",
    }
    set_policy(api, federation["id"], **policy)
    experiment = api.submit(asking(federation, {"intersections": [["group", "age"]]}))
    assert api.stored(experiment["id"]).disclosure is not None
    api.submit(asking(federation, {"sensitive": ["group"], "edges": {}}))
    set_policy(api, federation["id"])
    assert api.get(f"/v1/federations/{federation['id']}").json()["disclosure"] is None
    experiment = api.submit(asking(federation, {"minimum_group_size": 1, "edges": {"age": [3]}}))
    assert api.stored(experiment["id"]).disclosure is None


def test_a_retry_falls_under_the_present_policy(api: Api) -> None:
    first = api.submit()
    fail(api, first["id"])
    set_policy(api, first["federation_id"], source="registered")
    assert "register the file first" in refused(api, SPEC)["/federation"]
    set_policy(api, first["federation_id"], minimum_group_size=3)
    refusal = body_of(api.post(f"/v1/experiments/{first['id']}/retry"), 422)
    assert refusal["errors"][0]["pointer"] == "/fairness/minimum_group_size"


def test_the_policy_is_read_set_and_taken_back(api: Api) -> None:
    id_ = api.submit()["federation_id"]
    path = f"/v1/federations/{id_}/disclosure"
    empty = api.get(path).json()
    assert empty.pop("floor") == {"minimum_group_size": 1, "minimum_group_clients": 1}
    assert set(empty.values()) == {None}
    answer = set_policy(api, id_, minimum_group_size=3)
    assert answer == api.get(path).json()
    assert (answer["minimum_group_size"], answer["edges"]) == (3, None)
    assert answer["set_at"] is not None
    assert api.get(f"/v1/federations/{id_}").json()["disclosure"] == {"minimum_group_size": 3}
    twice = [{"group": {"a": "x"}, "op": "ge", "value": 3}] * 2
    assert put(api, id_, {"favourable": twice}).status_code == 200
    # The whole policy is set each time.
    assert set_policy(api, id_, minimum_group_clients=3)["minimum_group_size"] is None


def test_nothing_goes_below_the_floor_of_the_service(sqlite_url: str, tmp_path: Path) -> None:
    settings = settings_for(sqlite_url, tmp_path, min_group_size=5, min_group_clients=2)
    with running_api(settings) as api:
        faults = refused(api, spec(fairness={"minimum_group_size": 4, "minimum_group_clients": 1}))
        assert faults.keys() == {"/fairness/minimum_group_size", "/fairness/minimum_group_clients"}
        assert "FEDAUDIT_MIN_GROUP_SIZE" in faults["/fairness/minimum_group_size"]
        assert "set it to 5 or more" in faults["/fairness/minimum_group_size"]
        low = registration(fairness={"sensitive": ["group"], "minimum_group_size": 4})
        refusal = body_of(api.post("/v1/federations", files=parts(CONTENT, low)), 422)
        assert refusal["errors"][0]["pointer"] == "/fairness/minimum_group_size"
        (tmp_path / "sources" / "incomes.csv").write_bytes(CONTENT)
        low["federation"]["path"] = "incomes.csv"
        assert api.post("/v1/federations", json=low).status_code == 422
        id_ = api.submit(spec(fairness={"minimum_group_size": 5}))["federation_id"]
        assert put(api, id_, {"minimum_group_size": 4}).status_code == 422
        assert set_policy(api, id_, minimum_group_size=6)["floor"] == {
            "minimum_group_size": 5,
            "minimum_group_clients": 2,
        }


def test_a_profile_from_before_the_policy_shows_no_groups(api: Api) -> None:
    federation = upload(api, value=AGES)
    make_ready(api, federation["id"], attributes={"group": {"groups": {"a": 60, "b": 60}}})
    path = f"/v1/federations/{federation['id']}"
    set_policy(api, federation["id"], minimum_group_size=30)
    assert "attributes" in api.get(f"{path}/profile").json()
    set_policy(api, federation["id"], minimum_group_size=31)
    for profile in (api.get(f"{path}/profile").json(), api.get(path).json()["profile"]):
        assert "attributes" not in profile
        assert "register the file again" in profile["warnings"][-1]["message"]


def test_the_owners_policy_binds_another_project_with_the_same_content(api: Api) -> None:
    federation = upload(api, value=AGES)
    make_ready(api, federation["id"])
    set_policy(api, federation["id"], edges={"age": [20]})
    scopes = ("experiments:write", "federations:read", "federations:write")
    guest = api.key_with(*scopes, project="guest")
    other = {**AGES, "fairness": {**AGES["fairness"], "edges": {"age": [21]}}}
    assert api.post("/v1/federations", files=parts(CONTENT, other), key=guest).status_code == 422
    theirs = upload(api, value=AGES, key=guest)
    make_ready(api, theirs["id"])
    assert put(api, theirs["id"], {"minimum_group_size": 31}, key=guest).status_code == 200
    value = asking(theirs, {"edges": {"age": [21]}})
    size, edges = "/fairness/minimum_group_size", "/fairness/edges/age"
    assert refused(api, value, key=guest).keys() == {size, edges}
    value["fairness"]["minimum_group_size"] = 31
    assert refused(api, value, key=guest).keys() == {edges}
    value["fairness"]["edges"] = {"age": [20]}
    experiment = api.submit(value, key=guest)
    assert api.stored(experiment["id"]).disclosure == {"edges": {"age": [20.0]}}


def test_submitters_neither_hide_groups_nor_round_gaps_away(api: Api, federation) -> None:
    """By a size above three groups of four, or the best of a hundred bases, gates would pass."""
    hiding = {"minimum_group_size": 31, "minimum_group_clients": 3}
    read = {"missing_values": ["", "?"], "join": {"old": {"columns": {"age": "1"}, "none": "0"}}}
    asked = asking(federation, {**hiding, "rounding": {"base": 6}, "reference_group": "<20"})
    asked["federation"] |= read
    body_of(api.check(asked))  # what no gate judges may hide more
    gated = {"gates": [{"figure": "equalized_odds_difference", "op": "le", "value": 0.1}]}
    faults = refused(api, {**asked, **gated})
    remedies = {
        "/fairness/minimum_group_size": "set it to 30 or less",
        "/fairness/minimum_group_clients": "set it to 2 or less",
        "/fairness/rounding/base": "take 5 or less",
        "/fairness/reference_group": "leave it out",
        "/federation/missing_values": "take what the data are registered with",
        "/federation/join": "take what the data are registered with",
    }
    assert faults.keys() == remedies.keys()
    assert all(remedy in faults[where] for where, remedy in remedies.items())
    usual = {"minimum_group_size": 30, "minimum_group_clients": 2, "rounding": {"base": 5}}
    body_of(api.check({**asking(federation, usual), **gated}))
    # What the owner demands, by policy or registration, may be taken.
    set_policy(api, federation["id"], **hiding)
    body_of(api.check({**asking(federation, hiding), **gated}))
    assert refused(api, {**asking(federation, {**hiding, "minimum_group_size": 32}), **gated})
    set_policy(api, federation["id"])
    own = {"federation": {**AGES["federation"], **read}}
    upload(api, value={**AGES, **own, "fairness": {**AGES["fairness"], **hiding}})
    make_ready(api, federation["id"])
    registered = asking(federation, hiding)
    for marks in (["", "?"], ["?"]):  # mean the same
        registered["federation"] |= read | {"missing_values": marks}
        body_of(api.check({**registered, **gated}))
