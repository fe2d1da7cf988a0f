"""The audit log tells who did what, and that it still says what it said."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from fedaudit.cli.verify import checked
from models.repositories import SigningKeyRepository, WebSessionRepository
from models.tables.accounts import ApiKey, AuditEntry, AuditHead
from models.values import utc_now
from tests.api.pages.browser import signed_in
from tests.api.service import KEY, SPEC, Api, body_of, finish, key_of, spec
from tests.api.uploads import upload
from tests.models.rows import at_once
from workers.proof.signing import AuditLogSigner

BUDGET = {"book": "simulation", "figure": "leakage", "total": 100.0}


def _log(api: Api, query: str = "") -> list[dict[str, Any]]:
    """Newest last."""
    return list(body_of(api.get(f"/v1/audit-log{query}"))["items"][::-1])


def _verified(api: Api) -> dict[str, Any]:
    return dict(api.get("/v1/audit-log/verification").json())


def test_every_deed_is_on_the_log_in_its_persons_name(api: Api) -> None:
    ada = key_of(api, "Ada")
    experiment = api.submit(key=ada)
    address, federation = f"/v1/experiments/{experiment['id']}", experiment["federation_id"]
    finish(api, experiment["id"])
    for path in ("/privacy-ledger.csv", "/bundle"):
        assert api.get(address + path, key=ada).status_code == 200
    signed_off = api.post(
        f"{address}/sign-offs", key=ada, json={"decision": "rejected", "note": "a secret note"}
    )
    assert signed_off.status_code == 201
    for setting, body in (("budget", BUDGET), ("disclosure", {"minimum_group_size": 30})):
        path = f"/v1/federations/{federation}/{setting}"
        assert api.request("PUT", path, json=body, key=ada).status_code < 300
    hook = {"url": "https://hooks.example.org/token", "events": ["gate.failed"]}
    made = api.post("/v1/webhooks", json=hook, key=ada).json()
    assert api.request("DELETE", f"/v1/webhooks/{made['id']}", key=ada).status_code == 204
    # What was refused is no deed.
    refused = api.request("PUT", f"/v1/federations/{federation}/budget", json={}, key=ada)
    assert refused.status_code == 422
    found = _log(api, "?actor=Ada")
    assert [(one["action"], one["subject"]) for one in found] == [
        ("experiment.submitted", experiment["id"]),
        ("ledger.exported", experiment["id"]),
        ("ledger.exported", experiment["id"]),
        ("report.signed-off", experiment["id"]),
        ("budget.set", federation),
        ("disclosure.set", federation),
        ("webhook.created", made["id"]),
        ("webhook.deleted", made["id"]),
    ]
    text = json.dumps(_log(api))
    for secret in (ada, made["secret"], hook["url"], "secret note", SPEC["name"]):
        assert secret not in text
    assert [one["number"] for one in _log(api)] == list(range(1, len(_log(api)) + 1))
    assert [one["action"] for one in _log(api, "?action=budget.set")] == ["budget.set"]
    assert _log(api, f"?created_before={found[0]['at']}")[-1]["action"] == "key.created"
    assert _verified(api)["valid"]


SECOND, BEFORE = AuditEntry.number == 2, select(AuditEntry.link).where(AuditEntry.number == 2)
TAMPERED = {
    "altered": [update(AuditEntry).where(SECOND).values(person="Eve")],
    "taken out": [delete(AuditEntry).where(SECOND)],
    # By somebody who knows of the head as well.
    "cut off": [
        delete(AuditEntry).where(AuditEntry.number == 3),
        update(AuditHead).values(entries=2, link=BEFORE.scalar_subquery()),
    ],
}


@pytest.mark.parametrize("how", TAMPERED)
def test_what_was_signed_cannot_be_changed_unseen(api: Api, how: str, tmp_path: Path) -> None:
    for name in ("Ada", "Bob", "Cleo"):
        key_of(api, name)
    signer = AuditLogSigner(api.database, KEY, signed={})
    assert signer.sign_waiting(10) == 1
    assert signer.sign_waiting(10) == 0
    verified = _verified(api)
    assert (verified["valid"], verified["entries"], verified["signed_entries"]) == (True, 3, 3)
    public_key = tmp_path / "key.pub"
    public_key.write_text(KEY.public.pem)
    check = checked(verified, _log(api), public_key=public_key, earlier=verified["signed_head"])
    assert (check["trusted"], check["faults"]) == (True, [])
    api.change(*TAMPERED[how])
    assert not _verified(api)["valid"]
    # Whoever also forgets the signed head deceives the service, and nobody who kept it.
    api.change(update(AuditHead).values(signed_entries=0, envelope=None))
    verified_now = _verified(api)
    assert verified_now["valid"] == (how == "cut off")
    check = checked(verified_now, _log(api), public_key=public_key, earlier=verified["signed_head"])
    assert check["faults"]
    assert signer.sign_waiting(10) == 0, "the sweeper remembers what it signed"


def test_a_sweeper_signs_no_log_that_is_set_back_to_an_earlier_head(api: Api) -> None:
    signer, heads = AuditLogSigner(api.database, KEY, signed={}), []
    for name in ("Ada", "Bob"):
        key_of(api, name)
        assert signer.sign_waiting(10) == 1
        heads.append(_verified(api)["signed_head"])
    api.change(update(AuditHead).values(signed_entries=1, envelope=heads[0]))
    assert signer.sign_waiting(10) == 0
    # Another has no such memory. A head by a leaked key proves nothing.
    assert AuditLogSigner(api.database, KEY, signed={}).sign_waiting(10) == 1
    with api.database.write() as session:
        SigningKeyRepository(session).mark_compromised(KEY.key_id, since=utc_now(), note=None)
    marked = ["the signed head has a key that is marked as compromised"]
    assert (_verified(api)["valid"], _verified(api)["faults"]) == (False, marked)


def test_the_sweeper_signs_nothing_that_does_not_follow(api: Api) -> None:
    key_of(api, "Ada")
    key_of(api, "Bob")
    api.change(update(AuditEntry).where(AuditEntry.number == 1).values(person="Eve"))
    assert AuditLogSigner(api.database, KEY, signed={}).sign_waiting(10) == 0
    assert _verified(api)["signed_head"] is None


def test_entries_that_come_at_once_are_in_one_chain(api_on_both: Api) -> None:
    api = api_on_both
    at_once(lambda number: [key_of(api, f"{number}") for _ in range(3)], 4)
    verified = _verified(api)
    assert (verified["valid"], verified["entries"]) == (True, 12)


# -- who did what is on record, in the name that the key had then ---------------------------------


def _who(actor: dict[str, Any]) -> tuple[str | None, str]:
    return actor["person"], actor["key_name"]


def test_a_key_has_a_person_whom_lists_show(api: Api) -> None:
    ada = {"name": "  Ada   Lovelace ", "email": "ada@example.org", "role": "officer"}
    asked = {"name": "ada", "scopes": ["reports:read"], "person": ada}
    made = body_of(api.post("/v1/api-keys", json=asked), 201)
    shown = {**ada, "name": "Ada Lovelace"}
    assert made["person"] == shown
    people = [key["person"] for key in api.get("/v1/api-keys").json()["items"]]
    assert people == [None, shown]
    makers = [key["created_by"] for key in api.get("/v1/api-keys").json()["items"]]
    assert makers[0] is None
    assert _who(makers[1]) == (None, "tests")


def test_an_experiment_says_who_submitted_cancelled_and_retried_it(api: Api) -> None:
    ada, bob = key_of(api, "Ada"), key_of(api, "Bob")
    submitted = api.submit(key=ada)
    assert _who(submitted["created_by"]) == ("Ada", "Ada's key")
    assert (submitted["cancelled_by"], submitted["cancel_requested_at"]) == (None, None)
    address = f"/v1/experiments/{submitted['id']}"
    api.post(f"{address}/cancel", key=bob)
    # A second request changes nothing, also not who was first.
    api.post(f"{address}/cancel", key=ada)
    cancelled = api.get(address).json()
    assert _who(cancelled["cancelled_by"]) == ("Bob", "Bob's key")
    assert _who(cancelled["created_by"]) == ("Ada", "Ada's key")
    assert cancelled["cancel_requested_at"] is not None
    retried = api.post(f"{address}/retry").json()
    assert _who(retried["created_by"]) == (None, "tests")
    page = signed_in(api).get(f"/experiments/{submitted['id']}").text
    assert "Ada <" in page
    assert "Bob <" in page
    assert "named by the administrators of their keys" in page


def test_the_history_of_a_federation_says_who_set_what(api_on_both: Api) -> None:
    api = api_on_both
    ada, bob = key_of(api, "Ada"), key_of(api, "Bob")
    address = f"/v1/federations/{upload(api)['id']}"
    api.request("PUT", f"{address}/budget", json=BUDGET, key=ada)
    assert api.set_budget(api.submit(spec(seed=8))["federation_id"], 7.0).status_code == 200
    refused = api.request("PUT", f"{address}/budget", json={**BUDGET, "total": -1}, key=ada)
    assert refused.status_code == 422
    api.request("PUT", f"{address}/budget", json={**BUDGET, "total": None}, key=bob)
    api.request("PUT", f"{address}/disclosure", json={"minimum_group_size": 30}, key=bob)
    api.request("PUT", f"{address}/simulation", json={"simulation": "forbidden"}, key=ada)
    newer = api.get(f"{address}/history?limit=3").json()
    older = api.get(f"{address}/history?limit=3&cursor={newer['next_cursor']}").json()
    assert older["next_cursor"] is None
    found = newer["items"] + older["items"]
    assert [(one["setting"], one["value"], one["changed_by"]["person"]) for one in found] == [
        ("simulation", {"simulation": "forbidden"}, "Ada"),
        ("disclosure", {"minimum_group_size": 30}, "Bob"),
        ("budget", {**BUDGET, "total": None}, "Bob"),
        ("budget", BUDGET, "Ada"),
    ]


# -- replacing a key's secret: the old one opens the key for a while, or not ----------------------


def made(api: Api, *scopes: str) -> tuple[str, str]:
    answer = api.post("/v1/api-keys", json={"name": "ci", "scopes": list(scopes)})
    return answer.json()["id"], answer.json()["key"]


def rotate(api: Api, key_id: str, seconds: int) -> str:
    answer = api.post(f"/v1/api-keys/{key_id}/rotate-secret", params={"overlap_seconds": seconds})
    return str(body_of(answer)["key"])


def opens(api: Api, secret: str) -> bool:
    return int(api.get("/v1/experiments", key=secret).status_code) == 200


def test_the_old_secret_ends_with_the_overlap_and_the_new_one_goes_on(api: Api) -> None:
    key_id, first = made(api, "experiments:read")
    second = rotate(api, key_id, 3600)
    assert opens(api, first)
    assert opens(api, second)
    third = rotate(api, key_id, 3600)
    assert not opens(api, first), "a third secret opens the key"
    assert opens(api, second)
    with api.database.write() as session:
        over = utc_now() - timedelta(seconds=1)
        session.execute(update(ApiKey).where(ApiKey.id == key_id).values(previous_until=over))
    assert [opens(api, one) for one in (first, second, third)] == [False, False, True]
    entry = api.get("/v1/audit-log", params={"subject": key_id}).json()["items"][0]
    assert (entry["action"], entry["details"]) == ("key.rotated", {"overlap_seconds": 3600})


def test_a_leaked_secret_ends_at_once_with_what_was_begun_with_it(api: Api) -> None:
    key_id, leaked = made(api, "experiments:read")
    api.client.post("/sign-in", data={"key": leaked, "next": "/"}, follow_redirects=False)
    assert api.client.get("/", follow_redirects=False).status_code == 200
    with api.database.write() as session:
        row = session.get_one(ApiKey, key_id)
        earlier = WebSessionRepository(session).begin(row, seconds=600)
    assert [opens(api, one) for one in (leaked, rotate(api, key_id, 0))] == [False, True]
    assert api.client.get("/", follow_redirects=False).status_code != 200, "the session goes on"
    with api.database.read() as session:
        assert WebSessionRepository(session).find(earlier) is None


def test_an_overlap_has_a_bound_and_a_revoked_key_is_not_rotated(api: Api) -> None:
    key_id, first = made(api, "experiments:read")
    path = f"/v1/api-keys/{key_id}/rotation"
    assert api.post(path, params={"overlap_seconds": 10**6}).status_code == 422
    assert opens(api, first)
    # The earlier path names its successor.
    answer = api.post(path, params={"overlap_seconds": 0})
    assert answer.headers["link"] == '<rotate-secret>; rel="successor-version"'
    assert {"deprecation", "sunset"} <= answer.headers.keys()
    secret = answer.json()["key"]
    assert (opens(api, first), opens(api, secret)) == (False, True)
    revoked = api.request("DELETE", f"/v1/api-keys/{key_id}")
    assert (revoked.status_code, revoked.headers.get("content-type")) == (204, None)
    assert not opens(api, secret)
    assert api.post(path).status_code == 404
    assert api.request("DELETE", f"/v1/api-keys/{key_id}").status_code == 404
