"""What a run was trained with stays while an attack on it waits; one request is stored once."""

from typing import Any

from sqlalchemy import select, update

import api.routers.attacks as asking
from models.repositories import UnitRepository
from models.tables.experiments import LaterAttacks, Unit
from tests.api.pages.browser import signed_in
from tests.api.service import Api, body_of, running_api, spec
from tests.models.rows import at_once
from tests.workers.attacks.attacked_service import ask, later_of, upload, work_later
from tests.workers.serving import work
from tests.workers.test_erasure import FAIRNESS, erase

ATTACK = {"kind": "membership"}
CENTRAL = {"mechanism": "gaussian-central", "noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5}


def trained(api: Api, federation: dict[str, Any], **changes: Any) -> str:
    """The id of a run on a table that has succeeded."""
    asked = spec(training={"rounds": 2, "hypotheses": 1}, gates=[], **changes)
    asked |= {"federation": federation, "fairness": changes.get("fairness", FAIRNESS)}
    id_ = str(api.submit(asked)["id"])
    work(api, id_)
    assert api.stored(id_).status == "succeeded", api.stored(id_).status_detail
    return id_


def test_data_under_an_attack_are_neither_erased_nor_deleted(api, looks, monkeypatch):
    federation = upload(api, slope=1)
    id_ = trained(api, federation)
    asked = ask(api, id_, ATTACK).json()["id"]
    refused = erase(api, federation["id"])
    assert (refused.status_code, refused.json()["needed_by"]) == (409, [asked])
    deleted = api.request("DELETE", f"/v1/federations/{federation['id']}")
    assert deleted.status_code == 409
    assert "attacks on them" in deleted.json()["detail"]
    assert work_later(api, asked)["status"] == "succeeded"
    with api.database.write() as session:  # what failed may quote a cell, also an earlier profile
        UnitRepository(session).create(api.project_id, "auto", kind="profile")
        session.execute(update(LaterAttacks).values(status_detail="'Klinik-Nord' is no number"))
        session.execute(update(Unit).values(last_error="ValueError: Klinik-Nord"))
    # Between the moment in which a request has seen the data and that in which it is stored.
    load = asking._cell

    def erased_since(*arguments: Any) -> Any:
        cell = load(*arguments)
        assert erase(api, federation["id"]).status_code == 202
        return cell

    monkeypatch.setattr(asking, "_cell", erased_since)
    refused = ask(api, id_, ATTACK)
    assert (refused.status_code, "cannot be used" in refused.json()["detail"]) == (409, True)
    monkeypatch.undo()
    assert ask(api, id_, ATTACK).status_code == 409
    assert len(api.get(f"/v1/experiments/{id_}/attacks/later").json()["items"]) == 1
    with api.database.read() as session:
        kept = [*session.scalars(select(LaterAttacks.status_detail))]
        kept += session.scalars(select(Unit.last_error))
    assert set(kept) == {None}, "an error text survives the erasure"


def started_from(api: Api, federation: dict[str, Any]) -> tuple[str, str]:
    """An artifact whose parameters were trained on the federation, and the id of a run on other
    data that starts from it."""
    model = trained(api, federation, privacy={**CENTRAL, "noise": "release"})
    content = api.get(f"/v1/experiments/{model}/model").content
    headers = {"Content-Type": "application/octet-stream"}
    artifact = str(api.post("/v1/artifacts", content=content, headers=headers).json()["id"])
    return artifact, trained(api, upload(api, slope=2), model={"start": {"artifact": artifact}})


def test_parameters_from_other_data_stay_under_an_attack_that_starts_from_them(api, looks):
    federation = upload(api, slope=1)
    _, started = started_from(api, federation)
    asked = ask(api, started, ATTACK).json()["id"]
    assert erase(api, federation["id"]).json()["needed_by"] == [asked]
    path, visitor = f"/experiments/{started}", signed_in(api)
    cancel = f"{path}/attacks/later/{asked}/cancel"
    assert f'action="{cancel}"' in visitor.get(f"{path}/report").text
    reader = signed_in(api, "reports:read")
    assert "Attacks in progress" in reader.get(f"{path}/report").text
    assert f'action="{cancel}"' not in reader.get(f"{path}/report").text
    assert visitor.post(cancel).status_code == 303
    assert api.get(f"/v1{path}/attacks/later/{asked}").json()["status"] == "cancelled"
    assert "Attacks in progress" not in visitor.get(f"{path}/report").text
    assert erase(api, federation["id"]).status_code == 202
    refused = ask(api, started, ATTACK)
    assert (refused.status_code, refused.json()["reason"]) == (410, "erased")


def test_an_artifact_that_somebody_deletes_ends_the_attack_with_its_reason(api, looks):
    artifact, started = started_from(api, upload(api, slope=1))
    asked = ask(api, started, ATTACK).json()["id"]
    assert api.request("DELETE", f"/v1/artifacts/{artifact}").status_code == 204
    found = work_later(api, asked)
    assert (found["status"], found["status_reason"]) == ("failed", "invalid-data")
    assert looks.looked == []


def test_two_equal_requests_at_once_are_one(api, looks):
    with running_api(api.settings) as other:
        id_ = trained(api, upload(api, slope=1))

        def both(**options: Any) -> list[Any]:
            return at_once(lambda i: ask((api, other)[i], id_, ATTACK, **options), 2)

        key = {"headers": {"Idempotency-Key": "once"}, "key": api.key}
        first, second = both(**key)
        assert (first.status_code, second.status_code) == (202, 202), (first.text, second.text)
        assert first.json()["id"] == second.json()["id"]
        assert later_of(api, id_, first.json()["id"])["number"] == 1
        assert work_later(api, first.json()["id"])["status"] == "succeeded"
        without_key = both()
        assert sorted(answer.status_code for answer in without_key) == [202, 409]
        assert len(api.get(f"/v1/experiments/{id_}/attacks/later").json()["items"]) == 2


def test_what_a_key_may_not_ask_for_is_no_fault_of_the_data(api, looks):
    federation = upload(api, slope=1)
    id_ = trained(api, federation, fairness={**FAIRNESS, "minimum_group_size": 3})
    blind = api.key_with("experiments:read", "experiments:write", "reports:read")
    [fault] = body_of(ask(api, id_, ATTACK, key=blind), 422)["errors"]
    assert fault["pointer"] == "/fairness/minimum_group_size"
    assert "federations:read" in fault["message"]
    assert ask(api, id_, ATTACK).status_code == 202
