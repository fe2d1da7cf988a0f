"""Sign-offs: who may, what is demanded, and that each is bound to its report and its place."""

import copy
import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any
from zipfile import ZipFile

import pytest
from sqlalchemy import delete, text, update

from fedaudit.ledger.bundle import opened_bundle
from fedaudit.ledger.statements import Envelope, SigningKey, to_base64
from fedaudit.ledger.statements import SignOff as Statement
from fedaudit.reports.verification.verification import Verification, verify
from fedaudit.spec.canonical import canonical_json
from models.repositories import SignOffRepository
from models.tables.experiments import SignOff
from tests.api.pages.browser import Browser, signed_in
from tests.api.service import KEY, Api, body_of, finished, key_of, spec
from tests.models.rows import at_once
from workers.proof.signing import SignOffSigner

APPROVED = {"decision": "approved", "note": "as agreed", "role": "data protection officer"}


def _sign_off(api: Api, experiment_id: str, key: str, **fields: Any) -> Any:
    address = f"/v1/experiments/{experiment_id}/sign-offs"
    return api.post(address, json={**APPROVED, **fields}, key=key)


def _listed(api: Api, experiment_id: str) -> list[dict[str, Any]]:
    return list(body_of(api.get(f"/v1/experiments/{experiment_id}/sign-offs"))["items"])


def _sign(api: Api) -> int:
    return SignOffSigner(api.database, KEY).sign_waiting(100)


def test_a_sign_off_is_in_the_name_of_the_key(api: Api) -> None:
    ada = key_of(api, "Ada")
    id_ = finished(api)
    body = body_of(_sign_off(api, id_, ada), 201)
    assert (body["number"], body["decision"], body["person"]) == (1, "approved", "Ada")
    assert body["report_hash"] == api.get("/v1/reports").json()["items"][0]["report_hash"]
    assert (body["by_submitter"], body["envelope"]) == (None, None)
    assert _sign_off(api, id_, ada, person="Grace").status_code == 422
    assert _sign(api) == 1
    [signed] = _listed(api, id_)
    envelope = Envelope.from_dict(signed["envelope"])
    assert KEY.public.verifies(envelope.signature, envelope.message)
    assert Statement.of(envelope).person == "Ada"
    assert _sign(api) == 0
    listed = api.get("/v1/reports?sign_off=approved").json()["items"][0]["sign_off"]
    assert (listed["person"], listed["number"]) == ("Ada", 1)
    assert api.get("/v1/reports?sign_off=none").json()["items"] == []


def test_who_may_not_sign_off_and_who_is_a_second_pair_of_eyes(api: Api) -> None:
    ada, again, bob = key_of(api, "Ada"), key_of(api, "ada"), key_of(api, "Bob")
    id_ = finished(api, key=ada)
    assert _sign_off(api, id_, key_of(api, "Ada", "reports:read", "admin")).status_code == 403
    assert "names no person" in body_of(_sign_off(api, id_, api.key), 403)["detail"]
    unfinished = api.submit()["id"]
    assert _sign_off(api, unfinished, ada).status_code == 404
    assert _sign_off(api, id_, ada, report_hash="0" * 64).status_code == 409
    assert _listed(api, id_) == []
    # Another name of the same person makes no second one.
    said = [_sign_off(api, id_, key).json()["by_submitter"] for key in (ada, again, bob)]
    assert said == [True, True, False]
    # A key without a person may be anybody's: it counts as no second person.
    assert _sign_off(api, finished(api, key=api.key), ada).json()["by_submitter"] is None


def test_what_speaks_against_a_report_demands_a_note_and_is_stated(api: Api) -> None:
    ada = key_of(api, "Ada")
    proven = {"noise_multiplier": 300, "radius": 1.0, "clip": 0.5, "noise": "release"}
    sound = finished(api, spec(privacy=proven, training={"hypotheses": 1}))
    assert _sign_off(api, sound, ada, note="").json()["concerns"] == []
    failing = [{"figure": "leakage_max", "op": "le", "value": 0.5, "allow_heuristic": True}]
    failing[0]["allow_simulation"] = True
    poor = finished(api, spec(gates=failing))
    for note in ("", "  \n "):
        [fault] = body_of(_sign_off(api, poor, ada, note=note), 422)["errors"]
        assert fault["pointer"] == "/note"
        assert "its gates failed and its guarantee is not in force" in fault["message"]
    stated = _sign_off(api, poor, ada, note="a rehearsal").json()
    assert stated["concerns"] == ["gates-failed", "guarantee-not-in-force"]


def test_a_request_that_is_sent_twice_at_once_signs_off_once(
    api_on_both: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, both, number_of = api_on_both, Barrier(2), SignOffRepository.next_number

    def together(*arguments: Any) -> int:
        with suppress(BrokenBarrierError):  # on SQLite one writes after the other
            both.wait(timeout=1)
        return number_of(*arguments)

    monkeypatch.setattr(SignOffRepository, "next_number", together)
    ada, id_ = key_of(api, "Ada"), finished(api)
    address, headers = f"/v1/experiments/{id_}/sign-offs", {"Idempotency-Key": "once"}
    send = partial(api.post, address, json=APPROVED, key=ada, headers=headers)
    assert [one.json()["number"] for one in at_once(lambda _: send(), 2)] == [1, 1]
    other = api.post(address, json={**APPROVED, "note": "x"}, key=ada, headers=headers)
    assert other.status_code == 409
    assert len(_listed(api, id_)) == 1


@pytest.fixture(scope="module")
def bundle(shared_api: Api, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a report with three sign-offs, signed by the service."""
    ada, id_ = key_of(shared_api, "Ada"), finished(shared_api)
    for decision in ("needs-changes", "rejected", "approved"):
        _sign_off(shared_api, id_, ada, decision=decision)
    assert _sign(shared_api) == 3
    return _downloaded(shared_api, id_, tmp_path_factory.mktemp("bundle"))


def _downloaded(api: Api, experiment_id: str, folder: Path) -> Path:
    path = folder / "bundle.zip"
    path.write_bytes(api.get(f"/v1/experiments/{experiment_id}/bundle").content)
    return path


Envelopes = list[dict[str, Any]]


def _verified(bundle: Path, change: Callable[[Envelopes], Envelopes] = lambda all_: all_) -> Any:
    with opened_bundle(bundle) as evidence:
        envelopes = change(copy.deepcopy(list(evidence.sign_offs)))
        return verify(replace(evidence, sign_offs=envelopes), trusted=[KEY.public])


def _failed(found: Verification) -> set[str]:
    return {one.name for one in found.checks if one.outcome == "fail"}


def _rewritten(
    envelope: dict[str, Any], key: SigningKey | None = None, **fields: Any
) -> dict[str, Any]:
    """With other content, under its old signature or signed anew."""
    value = json.loads(Envelope.from_dict(envelope).payload) | fields
    changed = Envelope.sign(Statement.payload_type(), canonical_json(value), key or KEY)
    if key is not None:
        return changed.as_dict()
    return {**envelope, "payload": to_base64(changed.payload)}


def test_a_bundle_has_the_sign_offs_and_another_is_as_it_was(bundle, shared_api, tmp_path):
    found = _verified(bundle)
    assert found.verdict == "valid"
    said = [(one.number, one.decision, one.person) for one in found.sign_offs]
    assert said == [(1, "needs-changes", "Ada"), (2, "rejected", "Ada"), (3, "approved", "Ada")]
    assert {one.name for one in found.checks} >= {
        *("sign_offs.signatures", "sign_offs.chain", "sign_offs.report", "sign_offs.concerns")
    }
    path = _downloaded(shared_api, finished(shared_api), tmp_path)
    with ZipFile(path) as without:
        assert not any("sign-offs" in name for name in without.namelist())
    found = _verified(path)
    assert (found.verdict, list(found.sign_offs)) == ("valid", [])


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (lambda all_: [all_[0], all_[2]], {"sign_offs.chain"}),
        (lambda all_: all_[1:], {"sign_offs.chain"}),
        (lambda all_: [all_[0], all_[2], all_[1]], {"sign_offs.chain"}),
        (lambda all_: [all_[0], all_[0], *all_[1:]], {"sign_offs.chain"}),
        (
            lambda all_: [all_[0], _rewritten(all_[1], decision="approved"), all_[2]],
            {"sign_offs.signatures", "sign_offs.chain"},
        ),
        (lambda all_: [*all_[:2], _rewritten(all_[2], note="")], {"sign_offs.signatures"}),
        (lambda all_: [*all_[:2], {**all_[2], "payload": "x"}], {"sign_offs.signatures"}),
        (
            lambda all_: [_rewritten(all_[0], KEY, report_hash="0" * 64, previous="0" * 64)],
            {"sign_offs.report"},
        ),
        (lambda all_: [_rewritten(all_[0], KEY, experiment_id="another")], {"sign_offs.chain"}),
        (lambda all_: [_rewritten(all_[0], KEY, concerns=())], {"sign_offs.concerns"}),
        (lambda all_: [_rewritten(all_[0], KEY, note=" ")], {"sign_offs.concerns"}),
        (lambda all_: [_rewritten(all_[0], SigningKey.generate())], {"sign_offs.signatures"}),
    ],
)
def test_what_was_changed_is_found(bundle, change, failed):
    found = _verified(bundle, change)
    assert found.verdict == "altered"
    assert failed <= _failed(found)
    assert all(name.startswith("sign_offs.") for name in _failed(found))


def test_the_database_is_checked_for_the_same(api_on_both: Api) -> None:
    api = api_on_both
    ada, id_ = key_of(api, "Ada"), finished(api)
    for _ in range(3):
        _sign_off(api, id_, ada)
    address = f"/v1/experiments/{id_}/report/verification"

    def outcomes() -> dict[str, str]:
        return {one["name"]: one["outcome"] for one in api.get(address).json()["checks"]}

    assert outcomes()["sign_offs.waiting"] == "unchecked"
    assert _sign(api) == 3
    assert "fail" not in outcomes().values()
    with api.database.write() as session:
        third = session.get_one(SignOff, (id_, 3))
        third.statement = {**third.statement, "decision": "rejected"}
        third.decision = "rejected"
    assert outcomes()["sign_offs.stored"] == "fail"
    api.change(delete(SignOff).where(SignOff.number == 2))
    assert outcomes()["sign_offs.chain"] == "fail"


def test_what_was_altered_before_it_was_signed_does_not_get_a_signature(api: Api) -> None:
    ada, first, second = key_of(api, "Ada"), finished(api), finished(api)
    for id_ in (first, first, second):
        _sign_off(api, id_, ada)
    api.change(
        delete(SignOff).where(SignOff.experiment_id == first, SignOff.number == 1),
        update(SignOff).where(SignOff.experiment_id == second).values(decision="rejected"),
    )
    signer = SignOffSigner(api.database, KEY)
    assert [signer.sign_waiting(100), signer.sign_waiting(100)] == [0, 0]
    # What was refused, or cannot even be read, holds up nothing else.
    _sign_off(api, unread := finished(api), ada)
    broken = "UPDATE sign_offs SET statement = '{' WHERE experiment_id = :id"
    api.change(text(broken).bindparams(id=unread))
    assert signer.sign_waiting(100) == 0
    _sign_off(api, third := finished(api), ada)
    assert signer.sign_waiting(1) == 1
    assert _listed(api, third)[0]["envelope"] is not None
    # A stored statement that is none is no reason to fail.
    api.change(update(SignOff).values(statement={"decision": "approved"}))
    answer = api.get(f"/v1/experiments/{second}/sign-offs").json()
    assert (answer["items"], answer["unreadable"]) == ([], 1)
    assert signed_in(api).get(f"/experiments/{second}/report").status_code == 200
    assert api.get("/v1/reports").status_code == 200


def test_no_sign_off_follows_one_that_was_signed_elsewhere(api: Api) -> None:
    ada, first, other = key_of(api, "Ada"), finished(api), finished(api)
    for id_ in (first, other):
        _sign_off(api, id_, ada)
    assert _sign(api) == 2
    with api.database.write() as session:
        elsewhere = session.get_one(SignOff, (other, 1)).envelope
        session.get_one(SignOff, (first, 1)).envelope = elsewhere
    body_of(_sign_off(api, first, ada), 201)
    assert _sign(api) == 0


def test_the_form_on_the_report(api: Api) -> None:
    id_ = finished(api)
    browser = Browser(api)
    browser.sign_in(key_of(api, "Ada <b>", "reports:read", "reports:sign"))
    base = f"/experiments/{id_}"
    page = browser.get(f"{base}/report")
    assert "This report is not signed off" in page.text
    assert "form-action 'self'" in page.headers["content-security-policy"]
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    fields |= {"decision": "approved", "role": "officer"}
    missing = browser.post(f"{base}/sign-offs", {**fields, "note": ""})
    assert missing.status_code == 422
    assert "note is needed, because its guarantee is not in force" in missing.text
    assert '<option value="approved" selected>' in missing.text
    assert browser.post(f"{base}/sign-offs", fields, csrf="0" * 64).status_code == 403
    fields["note"] = "<script>fine</script>"
    for _ in range(2):
        done = browser.post(f"{base}/sign-offs", fields)
        assert done.headers["location"] == f"{base}/report#sign-offs"
    [listed] = _listed(api, id_)
    assert listed["person"] == "Ada <b>"
    shown = browser.get(f"{base}/report").text
    assert "&lt;script&gt;fine" in shown
    assert "<script>" not in shown
    assert "Concerns at that time: its guarantee is not in force" in shown
    assert "approved by Ada &lt;b&gt;, against concerns" in shown
    body_of(_sign_off(api, id_, key_of(api, "Grace"), decision="rejected", note="noise"), 201)
    assert "against concerns" not in browser.get(f"{base}/report").text
    kept = browser.get(f"{base}/report.html")
    assert "Sign-offs" not in kept.text
    assert "form-action 'none'" in kept.headers["content-security-policy"]
    assert "approved" in browser.get("/reports").text
    # Readers have no form; a key without a person sees the reason.
    for scopes, warned in ((["reports:read"], False), (["reports:read", "reports:sign"], True)):
        page = signed_in(api, *scopes).get(f"{base}/report").text
        assert ("<form" in page, "names no person" in page) == (False, warned)
