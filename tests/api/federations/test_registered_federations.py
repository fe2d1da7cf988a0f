"""Federations from their registration to their deletion, and experiments that name them by id."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import event, update

from api.shared.federation_data import FederationCache
from fedaudit.federations.federation import Federation
from fedaudit.spec.parse import parse_admitted
from infrastructure.settings import Settings
from infrastructure.storage import Storage, StorageError
from models.tables.experiments import Experiment
from tests.api.service import Api, body_of, fail, finished
from tests.api.uploads import (
    CONTENT,
    PROFILE,
    files_of,
    make_ready,
    registration,
    reject,
    spec_of,
    stored,
    upload,
)

UNKNOWN = "01890000-0000-7000-8000-000000000000"


@pytest.fixture
def ready(api: Api) -> tuple[Api, str]:
    made = upload(api)["id"]
    make_ready(api, made)
    return api, made


def _faults(response: Any) -> dict[str, str]:
    return {error["pointer"]: error["message"] for error in body_of(response, 422)["errors"]}


def test_a_profile_is_shown_once_there_is_one_and_a_status_finds_it(ready: tuple[Api, str]) -> None:
    api, id_ = ready
    assert api.get(f"/v1/federations/{id_}/profile").json() == PROFILE
    shown = api.get(f"/v1/federations/{id_}").json()
    assert (shown["status"], shown["profile"]) == ("ready", PROFILE)
    assert (shown["clients"], shown["rows"]) == (40, 120)
    assert shown["profiled_at"] is not None
    other = upload(api, CONTENT + b"c1,a,1,2\n")["id"]
    for status, ids in (("ready", [id_]), ("profiling", [other]), ("deleted", [])):
        items = api.get(f"/v1/federations?status={status}").json()["items"]
        assert [item["id"] for item in items] == ids
    assert api.get("/v1/federations?status=lost").status_code == 422


def test_a_list_is_read_by_one_connection(ready: tuple[Api, str]) -> None:
    """With a second one inside the first, as many lists as the pool is large wait for ever."""
    api, _ = ready
    engine = api.client.app.state.resources.database.engine  # type: ignore[attr-defined]
    most = 0

    def asked(*_: object) -> None:
        nonlocal most
        most = max(most, engine.pool.checkedout())

    event.listen(engine, "before_cursor_execute", asked)
    try:
        assert api.get("/v1/federations").status_code == 200
    finally:
        event.remove(engine, "before_cursor_execute", asked)
    assert most == 1


def test_experiments_name_an_upload_by_its_id(ready: tuple[Api, str]) -> None:
    api, id_ = ready
    made = api.submit(spec_of({"id": id_}))
    assert made["federation_id"] == id_
    assert made["spec"]["federation"]["id"] == id_
    assert made["spec"]["federation"]["path"] is None
    found = api.get(f"/v1/experiments?federation_id={id_}").json()["items"]
    assert [item["id"] for item in found] == [made["id"]]
    [budget] = api.budgets(id_)
    checked = api.check(spec_of({"id": id_}))
    assert (checked.status_code, checked.json()["clients"]) == (200, 40)
    assert budget["reserved"] == checked.json()["projection"]["leakage_worst_case"] > 0
    fail(api, made["id"])
    retried = api.post(f"/v1/experiments/{made['id']}/retry")
    assert (retried.status_code, retried.json()["federation_id"]) == (202, id_)


def test_a_path_and_an_upload_with_one_content_share_one_budget(api: Api) -> None:
    api.put_source("incomes.csv", CONTENT)
    by_path = api.submit(spec_of({"path": "incomes.csv"}))["federation_id"]
    [once] = api.budgets(by_path)
    assert api.get(f"/v1/federations/{by_path}").json()["file_name"] is None
    named = _faults(api.post("/v1/experiments", json=spec_of({"id": by_path})))
    assert "name the data by `path`" in named["/federation/id"]
    uploaded = upload(api)
    assert (uploaded["id"], uploaded["status"]) == (by_path, "profiling")
    assert uploaded["file_name"] == "incomes.csv"
    make_ready(api, by_path)
    assert api.submit(spec_of({"id": by_path}))["federation_id"] == by_path
    [twice] = api.budgets(by_path)
    assert twice["reserved"] == 2 * once["reserved"] > 0


def test_only_a_federation_that_is_ready_has_a_profile_and_is_trained_on(api: Api) -> None:
    id_ = upload(api)["id"]
    path = f"/v1/federations/{id_}"

    def refused(status: str, remedy: str) -> None:
        with api.unchanged():
            assert f"is {status}" in body_of(api.get(f"{path}/profile"), 409)["detail"]
            for query in ("", "?validate_only=true"):
                faults = _faults(api.post(f"/v1/experiments{query}", json=spec_of({"id": id_})))
                assert faults["/federation/id"] == f"is {status}; {remedy}"

    refused("profiling", "wait for its profile")
    reject(api, id_, "/federation/target", "no such column")
    refused("rejected", f"correct it by PUT {path}/registration")
    rejected = api.get(f"{path}/profile").json()
    assert rejected["type"].endswith("conflict")
    assert rejected["reasons"] == [{"pointer": "/federation/target", "message": "no such column"}]
    assert api.request("DELETE", path).status_code == 204
    refused("deleted", "register its data again")
    assert api.get(f"/v1/federations/{UNKNOWN}/profile").status_code == 404


def test_another_projects_federation_is_not_trained_on(ready: tuple[Api, str]) -> None:
    api, id_ = ready
    other = api.key_with("experiments:write", "federations:read", project="another")
    # Also where the data was just loaded for its own project.
    api.submit(spec_of({"id": id_}))
    for given in (id_, UNKNOWN):
        for asked in (spec_of({"id": given}), {**spec_of({}), "federation": {"id": given}}):
            refused = api.post("/v1/experiments", json=asked, key=other)
            assert "no federation of this project" in _faults(refused)["/federation/id"]


def test_a_federation_in_use_is_not_deleted(ready: tuple[Api, str]) -> None:
    api, id_ = ready
    experiment = api.submit(spec_of({"id": id_}))["id"]
    for status in ("queued", "running", "cancelling"):
        api.change(update(Experiment).values(status=status))
        refusal = body_of(api.request("DELETE", f"/v1/federations/{id_}"), 409)
        assert refusal["type"].endswith("conflict")
    assert len(files_of(api)) == 1
    api.change(update(Experiment).values(status="queued"))
    api.post(f"/v1/experiments/{experiment}/cancel")
    assert api.request("DELETE", f"/v1/federations/{id_}").status_code == 204


def test_a_deletion_leaves_a_tombstone_with_all_that_was_spent(ready: tuple[Api, str]) -> None:
    api, id_ = ready
    api.set_budget(id_, 21.0)
    experiment = finished(api, spec_of({"id": id_}))
    budgets = api.budgets(id_)
    assert budgets[0]["spent"] > 0
    before = api.get(f"/v1/federations/{id_}").json()
    for _ in range(2):
        assert api.request("DELETE", f"/v1/federations/{id_}").status_code == 204
    assert files_of(api) == []
    shown = api.get(f"/v1/federations/{id_}").json()
    assert (shown["status"], shown["profile"]) == ("deleted", None)
    sizes = {name: before[name] for name in ("clients", "rows")}
    assert sizes.items() <= shown.items(), "ledgers that name it are judged by them"
    assert (shown["fingerprint"], shown["deleted_at"] is None) == (before["fingerprint"], False)
    assert api.budgets(id_) == budgets
    assert api.get(f"/v1/experiments/{experiment}/report").status_code == 200
    verified = api.get(f"/v1/experiments/{experiment}/report/verification").json()
    assert [check for check in verified["checks"] if check["outcome"] == "fail"] == []
    again = upload(api)
    assert (again["id"], again["status"], again["deleted_at"]) == (id_, "profiling", None)
    assert {**sizes, "profile": None}.items() <= again.items()
    assert api.budgets(id_) == budgets
    assert len(files_of(api)) == 1


def test_a_deletion_that_the_storage_refuses_is_taken_up_again(ready, monkeypatch):
    api, id_ = ready

    def away(_storage: Storage, _key: str) -> None:
        raise StorageError("the storage failed: EndpointConnectionError")

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "delete", away)
        refusal = body_of(api.request("DELETE", f"/v1/federations/{id_}"), 503)
        assert refusal["type"].endswith("unavailable")
    assert api.get(f"/v1/federations/{id_}").json()["status"] == "deleted"
    assert stored(api, id_).storage_key is not None
    assert api.request("DELETE", f"/v1/federations/{id_}").status_code == 204
    assert stored(api, id_).storage_key is None
    assert files_of(api) == []


# -- files below the sources folder ----------------------------------------------------------------


def test_a_file_below_the_sources_folder_is_registered_by_its_path(api: Api) -> None:
    api.put_source("folder/incomes.csv", CONTENT)
    value = registration(federation={"path": "folder/incomes.csv"})
    headers = {"Idempotency-Key": "one"}
    made = body_of(api.post("/v1/federations", json=value, headers=headers), 202)
    id_ = made["id"]
    assert made["fingerprint"] == upload(api)["fingerprint"]
    assert api.post("/v1/federations", json=value, headers=headers).json()["id"] == id_
    other = api.post("/v1/federations", json={**value, "name": "x"}, headers=headers)
    assert other.json()["type"].endswith("idempotency-mismatch")
    for path in ("missing.csv", "../secret.csv", "a\x00.csv", None):
        unusable = registration(federation={} if path is None else {"path": path})
        assert "/federation/path" in _faults(api.post("/v1/federations", json=unusable))


def test_a_registered_path_is_trained_on_by_id_while_it_is_unchanged(api: Api) -> None:
    path = api.put_source("incomes.csv", CONTENT)
    value = registration(federation={"path": "incomes.csv"})
    id_ = api.post("/v1/federations", json=value).json()["id"]
    make_ready(api, id_)
    assert files_of(api) == []
    assert api.post("/v1/federations", json=value).status_code == 200
    assert api.submit(spec_of({"id": id_}))["federation_id"] == id_
    changed = spec_of({"id": id_, "validation_fraction": 0.4})
    path.write_bytes(CONTENT + b"c1,a,1,2\n")
    assert "no longer" in _faults(api.post("/v1/experiments", json=changed))["/federation/id"]
    path.unlink()
    assert list(_faults(api.post("/v1/experiments", json=changed))) == ["/federation/id"]


def test_a_federation_is_no_table_of_coordinates_of_another_file(api: Api) -> None:
    """A run would learn its rows, and its budget would be charged with nothing."""
    rows = "".join(f"p{row % 8},{10000 + row},194,{row}\n" for row in range(80))
    api.put_source("own.csv", b"provider_id,zip,drg_cd,average_total_payments\n" + rows.encode())
    places = "".join(f"{10000 + row},{-100 + row / 8},40,{row}\n" for row in range(80))
    api.put_source("people.csv", b"zip,longitude,latitude,illness\n" + places.encode())
    joined = {"source": "hospital-charges", "path": "own.csv", "client_key": "provider_id"}
    value = spec_of({})
    value["federation"] = {**joined, "conditions": [194], "zip_table": "people.csv"}
    value["fairness"] = {}
    body_of(api.post("/v1/experiments?validate_only=true", json=value), 200)
    people = {"source": "table", "path": "people.csv", "client_key": "zip", "target": "illness"}
    body_of(api.post("/v1/federations", json={"name": "people", "federation": people}), 202)
    refused = _faults(api.post("/v1/experiments", json=value))
    assert "is the data of a federation" in refused["/federation/zip_table"]


def test_an_upload_gives_a_registered_path_its_file_without_another_profile(api: Api) -> None:
    api.put_source("incomes.csv", CONTENT)
    value = registration(federation={"path": "incomes.csv"})
    id_ = api.post("/v1/federations", json=value).json()["id"]
    make_ready(api, id_)
    attached = upload(api)
    assert (attached["id"], attached["status"]) == (id_, "ready")
    assert len(files_of(api)) == 1
    # And the other way round the stored file stays.
    renamed = registration(name="renamed", federation={"path": "incomes.csv"})
    assert api.post("/v1/federations", json=renamed).json()["status"] == "profiling"
    assert len(files_of(api)) == 1


# -- loaded data are kept for specs that would load the same, and for no others -------------------


ROWS = "place,age,cost\n" + "".join(f"p{row % 8},{row},{row % 3}\n" for row in range(80))
BY_KEY = {"client_key": "place"}
DEALT = {"partition": {"method": "iid", "clients": 8}, "features": ["age"]}


def spec(federation: dict[str, Any], **changes: Any) -> dict[str, Any]:
    table = {"source": "table", "path": "a.csv", "target": "cost"}
    return {
        "name": "cached",
        "federation": {**table, **federation},
        "model": {"kind": "linear"},
        "training": {"loss": "rmse", "rounds": 1, "cohort": {"clients": 1}},
        "privacy": {"mechanism": "none"},
        **changes,
    }


def loaded(cache: FederationCache, value: dict[str, Any]) -> Federation:
    return cache.load(parse_admitted(value), project_id="project", may_read=None)


@pytest.fixture
def cache(tmp_path: Path) -> FederationCache:
    (tmp_path / "a.csv").write_text(ROWS)
    # No spec here names an upload, so neither database nor storage is asked for one.
    return FederationCache(Settings(sources_dir=tmp_path), None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("federation", "drawn"),
    [
        (BY_KEY, False),
        ({**BY_KEY, "standardise": "client"}, False),
        ({**BY_KEY, "standardise": "global"}, True),
        (DEALT, True),
    ],
)
def test_another_seed_is_other_data_only_where_data_are_drawn(cache, federation, drawn):
    one = loaded(cache, spec(federation, seed=1))
    other = loaded(cache, spec(federation, seed=2))
    assert (one is not other) == drawn
    dealt = federation is DEALT  # what is standardised otherwise is left out here
    assert one.is_outline
    assert np.array_equal(one.row_numbers, other.row_numbers) != dealt  # type: ignore[arg-type]
    assert loaded(cache, spec(federation, seed=1)) is one


def test_other_edges_are_other_groups(cache: FederationCache) -> None:
    for edge in (40, 50):
        fairness = {"sensitive": ["age"], "favourable": {"op": "ge", "value": 1}}
        value = spec(
            {**BY_KEY, "features": ["age"]}, fairness={**fairness, "edges": {"age": [edge]}}
        )
        assert loaded(cache, value).attribute("age").values == (f"<{edge}", f">={edge}")
