"""Registrations that are proposed, and corrected without sending the file again."""

import gzip
import hashlib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from api.http.problems import ProblemError
from api.services.uploads import ContentHash
from fedaudit.spec.registration import parse_uploaded
from models.tables.federations import RowSketch
from tests.api.service import Api, body_of, finished, spec
from tests.api.uploads import (
    CONTENT,
    REGISTRATION,
    files_of,
    make_ready,
    parts,
    registration,
    reject,
    spec_of,
    stored,
    upload,
)
from tests.workers.serving import worker_of
from workers.run_unit import run_unit

UNKNOWN = "01890000-0000-7000-8000-000000000000"


def put(api: Api, id_: str, value: Any, **options: Any) -> Any:
    return api.request("PUT", f"/v1/federations/{id_}/registration", json=value, **options)


def test_a_proposal_is_a_registration_with_its_reasons(api: Api) -> None:
    api.put_source("incomes.csv", CONTENT)
    body = body_of(api.post("/v1/federations/proposals", json={"path": "incomes.csv"}))
    federation = body["registration"]["federation"]
    assert (federation["client_key"], federation["target"]) == ("client", "income")
    assert (body["rows"], body["complete"]) == (120, True)
    assert parse_uploaded(yaml.safe_load(body["yaml"]), file_name="incomes.csv").name
    id_ = upload(api)["id"]
    by_id = api.post("/v1/federations/proposals", json={"id": id_, "target": "age"}).json()
    assert by_id["registration"]["federation"]["target"] == "age"
    assert len(api.get("/v1/federations").json()["items"]) == 1, "a proposal stores nothing"


@pytest.mark.parametrize(
    ("body", "status", "pointer"),
    [
        ({}, 422, "/path"),
        ({"path": "a.csv", "id": UNKNOWN}, 422, "/path"),
        ({"path": "../a.csv"}, 422, "/path"),
        ({"path": "missing.csv"}, 422, "/path"),
        ({"id": UNKNOWN}, 404, None),
        ({"path": "a.csv", "rows": 5}, 422, "/rows"),
    ],
)
def test_a_file_that_is_not_there_is_named(api, body, status, pointer):
    found = body_of(api.post("/v1/federations/proposals", json=body), status)
    if pointer is not None:
        assert pointer in [error["pointer"] for error in found["errors"]]


def test_a_registration_is_corrected_without_the_file_until_it_is_used(api: Api) -> None:
    id_ = upload(api)["id"]
    reject(api, id_, "/federation/target", "is wrong")
    kept = stored(api, id_).storage_key
    corrected = body_of(put(api, id_, registration(federation={"target": "age"})), 202)
    assert (corrected["id"], corrected["status"]) == (id_, "profiling")
    assert corrected["registration"]["federation"]["target"] == "age"
    assert (stored(api, id_).storage_key, len(files_of(api))) == (kept, 1)
    shown = corrected["registration"]
    assert put(api, id_, shown).status_code == 202, "what GET shows is accepted"
    make_ready(api, id_)
    assert put(api, id_, shown).status_code == 200
    assert put(api, id_, registration()).status_code == 202
    make_ready(api, id_)
    finished(api, spec_of({"id": id_}))
    assert "upload it again" in body_of(put(api, id_, registration()), 409)["detail"]
    # A deleted one has no file to register.
    assert api.request("DELETE", f"/v1/federations/{id_}").status_code == 204
    assert put(api, id_, registration()).status_code == 409
    assert api.post("/v1/federations/proposals", json={"id": id_}).status_code == 409


@pytest.mark.parametrize(
    ("change", "pointer"),
    [({"federation": {"id": UNKNOWN}}, "/federation/id"), ({"name": ""}, "/name")],
)
def test_a_faulty_registration_changes_nothing(api, change, pointer):
    id_, faulty = upload(api)["id"], registration(**change)
    before = api.counts(), stored(api, id_).registration
    for answer in (
        put(api, id_, faulty),
        api.post("/v1/federations", files=parts(value=faulty)),
        api.post("/v1/federations", json=faulty),
    ):
        assert pointer in [error["pointer"] for error in body_of(answer, 422)["errors"]]
    assert (api.counts(), stored(api, id_).registration) == before


def test_an_experiment_by_id_alone_takes_what_was_registered(api: Api) -> None:
    labels = {"group": {"a": "odd"}}
    id_ = upload(api, value=registration(federation={"labels": labels}))["id"]
    make_ready(api, id_)
    value = {name: given for name, given in spec_of({}).items() if name != "fairness"}
    value["federation"] = {"id": id_, "validation_fraction": 0.5}
    checked = api.check(value)
    assert checked.status_code == 200, checked.text
    found = api.submit(value)["spec"]
    assert found["federation"]["target"] == "income"
    assert found["federation"]["labels"] == labels
    assert found["fairness"]["sensitive"] == ["group"]
    assert found["fairness"]["minimum_group_size"] == 2


def test_an_experiment_is_proposed_for_what_its_profile_shows(api: Api) -> None:
    scale = {"age": {"low": 0, "high": 40}, "income": 100}
    id_ = upload(api, value=registration(federation={"scale": scale, "features": ["age"]}))["id"]
    at = f"/v1/federations/{id_}/proposals"
    assert api.post(at, json={}).status_code == 409, "it is not profiled yet"
    make_ready(api, id_, target="income", classes=[])
    for body, pointer in (
        ({"epsilon": 1, "leakage": 3}, ""),
        ({"delta": 1e-3, "privacy": "none"}, "/delta"),
        ({"unit": "record", "leakage": 3}, "/unit"),
        ({"rounds": 3}, "/rounds"),
    ):
        refused = api.post(at, json=body)
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)
    found = api.post(at, json={"epsilon": 2.0}).json()
    assert found["expected_useful"], found["needs"]
    assert 1.9 < found["projection"]["epsilon"][0]["value"] <= 2.0
    known = api.check(found["spec"])
    assert body_of(known)["projection"]["epsilon"] == found["projection"]["epsilon"]
    assert api.set_budget(id_, 5.0).status_code == 200
    of_budget = api.post(at, json={}).json()
    assert of_budget["projection"]["leakage_worst_case"] <= 5.0
    assert of_budget["spec"]["privacy"]["mechanism"] == "laplace-l2"
    assert api.set_budget(id_, None).status_code == 200
    # A total composes by rdp, at its own delta: it has room for what fits it by that alone.
    terms = {"figure": "epsilon", "observer": "final_model", "adjacency": "add-or-remove-one"}
    assert api.set_budget(id_, 2.0, delta=1e-6, **terms).status_code == 200
    for unit, mechanism in (("client", "gaussian-central"), ("record", "record-personalised")):
        spec = api.post(at, json={"unit": unit}).json()["spec"]
        assert (spec["privacy"]["mechanism"], spec["privacy"]["delta"]) == (mechanism, 1e-6)
        assert unit == "record" or body_of(api.check(spec))["budget"]["has_room"]
    spec = api.post(at, json={"unit": "client"}).json()["spec"]
    spec["privacy"]["accountant"] = "pld"
    assert "composed by `rdp`" in body_of(api.check(spec))["budget"]["detail"]
    assert api.set_budget(id_, None, delta=1e-6, **terms).status_code == 200
    of_reports = {"figure": "epsilon", "observer": "report", "delta": 1e-6}
    of_reports |= {"adjacency": "add-or-remove-one"}
    for total, setting in ((None, {}), (0.0, {**of_reports, "book": "release"})):
        assert api.set_budget(id_, total, **setting).status_code == 200
    assert "`fairness.noise`" not in str(api.post(at, json={}).json()["needs"])
    # Without noise a run is in both books, and submission refuses it.
    found = api.post(at, json={"privacy": "none"}).json()
    assert "`fairness.noise`" in found["needs"]
    assert api.post("/v1/experiments", json=found["spec"]).status_code == 409
    assert api.set_budget(id_, 0.0, **of_reports).status_code == 200
    # It is about others than those who train, and refuses exact figures.
    found = api.post(at, json={}).json()
    assert found["spec"]["privacy"]["target"] == {"epsilon": 2.94}
    assert "`fairness.noise`" in found["needs"]


# -- federations and the budgets on their data ----------------------------------------------------


def test_data_that_was_used_is_listed_once(api_on_both: Api) -> None:
    api = api_on_both
    first, same = api.submit()["federation_id"], api.submit(spec(seed=7))["federation_id"]
    other = api.submit(spec(seed=8))["federation_id"]
    assert first == same != other
    items = api.get("/v1/federations").json()["items"]
    assert [item["id"] for item in items] == [other, first]
    assert api.get(f"/v1/federations/{first}").json() == items[1]
    assert (items[1]["clients"], items[1]["rows"]) == (40, 120)
    assert items[1]["source"] == items[1]["name"] == "synthetic-groups"
    assert items[1]["status"] == "ready"
    page = api.get("/v1/federations?limit=1").json()
    rest = api.get(f"/v1/federations?limit=1&cursor={page['next_cursor']}").json()
    assert [page["items"][0]["id"], rest["items"][0]["id"]] == [other, first]
    assert rest["next_cursor"] is None


def test_a_budget_is_set_and_read_back(api: Api) -> None:
    federation = api.submit()["federation_id"]
    for total, remaining in ((0, 0.0), (21.0, 17.0), (None, None)):
        [budget] = body_of(api.set_budget(federation, total))["items"]
        assert [budget] == api.budgets(federation, total=total, reserved=4.0, remaining=remaining)
        assert (budget["reason"] is None) == (total is not None)


# -- the fingerprint of a file in pieces is that of its content, however it was cut or compressed


def _hashed(file: bytes, cut: int, *, largest: int = 10**9) -> str:
    found = ContentHash(largest)
    for start in range(0, len(file), cut):
        found.update(file[start : start + cut])
    return found.finish()


@given(
    members=st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    padding=st.integers(0, 5),
    cut=st.integers(1, 40),
)
def test_gzip_is_undone_member_by_member(members: list[bytes], padding: int, cut: int) -> None:
    file = b"".join(gzip.compress(member) + bytes(padding) for member in members)
    assert gzip.decompress(file) == b"".join(members)
    assert _hashed(file, cut) == hashlib.sha256(b"".join(members)).hexdigest()


@given(content=st.binary(max_size=300), cut=st.integers(1, 40))
def test_anything_else_is_hashed_as_it_is(content: bytes, cut: int) -> None:
    if content[:2] != b"\x1f\x8b":
        assert _hashed(content, cut) == hashlib.sha256(content).hexdigest()


@given(content=st.binary(min_size=1, max_size=300), cut=st.integers(1, 40), data=st.data())
def test_a_gzip_file_that_is_cut_or_continued_is_refused(content, cut, data):
    whole = gzip.compress(content)
    kept = data.draw(st.integers(2, len(whole) - 1))
    for file in (whole[:kept], whole + b"more"):
        with pytest.raises(ProblemError, match="compress it again"):
            _hashed(file, cut)


@pytest.mark.parametrize("size", [2**20 - 1, 2**20, 2**20 + 1, 5 * 2**20])
def test_a_bomb_is_stopped_at_the_limit(size: int) -> None:
    bomb = gzip.compress(bytes(size))
    assert _hashed(bomb, 100, largest=size) == hashlib.sha256(bytes(size)).hexdigest()
    with pytest.raises(ProblemError, match="after decompression"):
        _hashed(bomb, 100, largest=size - 1)


# -- a file with mostly the rows of another has its own budget and a warning ----------------------

ROWS = [f"c{row % 60},{'a' if row % 2 else 'b'},{row},{7 * row % 101}" for row in range(3000)]
KEYS = ("federations:read", "federations:write", "experiments:read", "experiments:write")
REGISTERED = {**REGISTRATION, "federation": {**REGISTRATION["federation"], "features": ["age"]}}


def table(rows: list[str], header: str = "client,group,age,income") -> bytes:
    return "\n".join([header, *rows, ""]).encode()


def register(api: Api, content: bytes, **options: Any) -> dict[str, Any]:
    """Uploads a table and lets a worker profile it; the federation as it then is."""
    found = upload(api, content, REGISTERED, **options)
    run_unit(worker_of(api), str(stored(api, found["id"]).unit_id))
    shown = api.get(f"/v1/federations/{found['id']}", **options).json()
    assert shown["status"] == "ready", shown["reasons"]
    return dict(shown)


def test_a_row_less_is_another_federation_and_a_warning(api_on_both: Api) -> None:
    api = api_on_both
    first = register(api, table(ROWS))
    assert first["warnings"] == []
    copy = register(api, table(ROWS[1:]))
    [warning] = copy["warnings"]
    assert "nearly the same rows" in warning
    assert first["id"] in warning
    assert "budgets are separate" in warning
    # It holds the other way round as well, and every door says so.
    [back] = api.get(f"/v1/federations/{first['id']}").json()["warnings"]
    assert copy["id"] in back
    listed = api.get("/v1/federations").json()["items"]
    assert [one["warnings"] for one in listed] == [[warning], [back]]
    assert upload(api, table(ROWS[1:]), REGISTERED)["warnings"] == [warning]
    source = {"id": copy["id"], "features": ["age"]}
    assert api.submit(spec_of(source, gates=[]))["warnings"] == [warning]
    checked = api.check(spec_of(source, gates=[]))
    assert checked.json()["warnings"] == [warning]


def test_order_is_no_disguise_a_part_is_known_and_other_rows_are_not(api: Api) -> None:
    first = register(api, table(ROWS))
    turned = [",".join(reversed(row.split(","))) for row in reversed(ROWS[:-5])]
    copy = register(api, table(turned, "income,age,group,client"))
    assert first["id"] in copy["warnings"][0]
    assert first["id"] in str(register(api, table(ROWS[:1500]))["warnings"])
    assert register(api, table([row.replace("c", "d") for row in ROWS]))["warnings"] == []


def test_another_projects_content_is_not_named(api: Api) -> None:
    stranger = api.key_with(*KEYS, project="another")
    theirs = register(api, table(ROWS), key=stranger)
    [warning] = register(api, table(ROWS[:-1]))["warnings"]
    assert "other registered content" in warning
    for name in (theirs["id"], "another", theirs["name"]):
        assert name not in warning
    [back] = api.get(f"/v1/federations/{theirs['id']}", key=stranger).json()["warnings"]
    assert "other registered content" in back


def test_a_warning_does_not_say_whether_a_stranger_has_a_guessed_row(api: Api) -> None:
    register(api, table(ROWS), key=api.key_with(*KEYS, project="another"))

    def hashed(row: str) -> bytes:
        client, group, age, income = row.split(",")
        cells = "\x1f".join((age, client, group, income))
        return hashlib.blake2b(cells.encode(), digest_size=8).digest()

    there = sorted(ROWS, key=hashed)
    for known, warned in ((1, False), (29, False), (30, True)):
        probe = register(api, table([*there[:known], "zz,a,1,7", "zz,b,1,8"]))
        assert bool(probe["warnings"]) is warned, known


def test_a_deletion_takes_the_sketch_and_leaves_what_was_found(api: Api) -> None:
    first, copy = register(api, table(ROWS)), register(api, table(ROWS[1:]))
    assert api.request("DELETE", f"/v1/federations/{first['id']}").status_code == 204
    with api.database.read() as session:
        kept = session.scalars(select(RowSketch.federation_id)).all()
    assert kept == [copy["id"]]
    assert api.get(f"/v1/federations/{copy['id']}").json()["warnings"] == copy["warnings"]
