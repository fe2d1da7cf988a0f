"""Attacks on a run whose report is signed: beside it, and as binding as an attack of its spec."""

import numpy as np
import pytest
import safetensors.numpy

import fedaudit.training.mechanisms.gaussian
import workers.attacks.attacked_experiment
from fedaudit.ledger.statements import Envelope, link_of, previous_of
from fedaudit.reports.report import LaterStatement
from fedaudit.reports.verification.checkpoints import ReadLater, evidence_checks
from infrastructure.storage import Storage
from models.repositories import ExpiredFileRepository
from models.tables.experiments import Unit
from tests.api.pages.browser import signed_in, text_of
from tests.api.service import KEY, Api, body_of, key_of, spec
from tests.attacks.doubles import ALARM, ATTACK, Looks
from tests.workers.attacks.attacked_service import (
    ask,
    attack_later,
    events_of,
    give_back,
    later_of,
    report_of,
    stored_later,
    work_later,
)
from tests.workers.serving import failed_checks, work
from workers.finish import fail_unit
from workers.sweeper import Expiry

CANARIES = {"kind": "canaries", "unit": "client", "count": 10}
BOUND = {"figure": "leakage_max", "op": "le", "value": 1e9}
ALLOWED = {"allow_heuristic": True, "allow_conditional": True, "allow_simulation": True}
QUIET = spec(training={"rounds": 3}, gates=[{**BOUND, **ALLOWED}])


@pytest.fixture
def ended(api: Api, looks: Looks) -> str:
    """The id of a run that has succeeded, without attacks."""
    id_: str = api.submit(QUIET)["id"]
    work(api, id_)
    return id_


def test_a_finished_run_is_repeated_and_attacked_beside_its_report(api, looks, ended):
    before = report_of(api, ended)
    found = attack_later(api, ended, ATTACK)
    assert (found["status"], found["number"], found["basis"]) == ("succeeded", 1, "repeated")
    [attacked] = looks.looked
    assert attacked.run.ledger.head.hex() == before["integrity"]["chain_head"]
    assert report_of(api, ended) == before
    [attack] = found["items"]
    assert attack["section"]["status"] == "done"
    [file] = attack["files"]
    assert api.get(file["href"]).content.startswith(b"largest")
    reader = api.key_with("reports:read", "experiments:read")
    assert api.get(file["href"], key=reader).status_code == 403
    assert api.get("/v1/audit-log?action=ledger.exported").json()["items"]
    [entry] = api.get("/v1/audit-log?action=experiment.attacked").json()["items"]
    assert entry["details"]["kinds"] == ["cluster-membership"]
    body = api.get(f"/v1/experiments/{ended}").json()
    assert (body["alarms"], body["gate_outcome"]) == (0, "pass")
    # The same of a run whose spec asked for it.
    asked = api.submit({**QUIET, "name": "asked", "attacks": [ATTACK]})["id"]
    work(api, asked)
    assert report_of(api, asked)["attacks"] == [attack["section"]]
    # Files expire by themselves, and the section stays.
    settings = api.settings.model_copy(update={"keep_results_days": 0})
    Expiry(settings, api.database, Storage(settings.storage_url)).expire()
    assert api.get(file["href"]).status_code == 410
    [attack] = later_of(api, ended, found["id"])["items"]
    assert (attack["files"], attack["section"]["status"]) == ([], "done")
    assert "expired on" in attack["files_reason"]


def test_an_alarm_that_is_found_later_counts_as_one_of_the_report(api, looks, ended):
    webhook = api.post(
        "/v1/webhooks",
        json={"url": "http://127.0.0.1:9/", "events": ["alarm.raised", "gate.failed"]},
    ).json()
    looks.alarm = ALARM
    first = attack_later(api, ended, ATTACK)
    looks.alarm = None
    # Whoever tries again until nothing is found has not won.
    second = attack_later(api, ended, ATTACK)
    assert (first["alarms"], second["alarms"]) == (1, 0)
    body = api.get(f"/v1/experiments/{ended}").json()
    assert (body["alarms"], body["gate_outcome"]) == (1, "insufficient_evidence")
    assert [one["id"] for one in api.get("/v1/experiments?alarm=true").json()["items"]] == [ended]
    assert events_of(api, ended).count("alarm.raised") == 1
    sent = api.get(f"/v1/webhooks/{webhook['id']}/deliveries").json()["items"]
    assert sorted(one["event"] for one in sent) == ["alarm.raised", "gate.failed"]
    judged = api.post("/v1/gates/evaluations", json={"experiment_id": ended}).json()
    assert judged["outcome"] == "insufficient_evidence"
    [listed] = api.get("/v1/reports").json()["items"]
    assert listed["verdict"].startswith("No")
    signer = key_of(api, "Ada", "reports:sign", "reports:read")
    path = f"/v1/experiments/{ended}/sign-offs"
    assert api.post(path, json={"decision": "approved"}, key=signer).status_code == 422
    noted = {"decision": "approved", "note": "The alarm is being looked into."}
    signed = api.post(path, json=noted, key=signer).json()
    assert "attack-raised-alarm" in signed["concerns"]
    # Statements are signed, and each names the one before.
    envelopes = [Envelope.from_dict(one["envelope"]) for one in (first, second)]
    assert [LaterStatement.of(envelope).number for envelope in envelopes] == [1, 2]
    before = [previous_of(envelope) for envelope in envelopes]
    assert before == [first["report_hash"], link_of(envelopes[0])]
    checks = api.get(f"/v1/experiments/{ended}/report/verification").json()["checks"]
    assert "later_attacks.chain" in {one["name"] for one in checks if one["outcome"] == "pass"}
    assert failed_checks(api, ended) == []


def test_what_the_owner_forbids_is_not_found_out_later(api: Api, looks: Looks, ended: str) -> None:
    federation = api.get(f"/v1/experiments/{ended}").json()["federation_id"]
    path = f"/v1/federations/{federation}/simulation"
    assert api.request("PUT", path, json={"simulation": "forbidden"}).status_code == 200
    problem = body_of(ask(api, ended, ATTACK), 409)
    assert problem["type"].endswith("/simulation-forbidden")
    assert "the attack `cluster-membership`" in problem["detail"]
    assert ask(api, ended, CANARIES).status_code == 202


def test_a_total_on_what_reports_reveal_admits_no_findings_without_noise(api, looks, ended):
    federation = api.get(f"/v1/experiments/{ended}").json()["federation_id"]
    key = {"delta": 1e-6, "adjacency": "add-or-remove-one", "observer": "report"}
    total = {"figure": "epsilon", "total": 1, **key}
    assert api.set_budget(federation, **{**total, "book": "release"}).status_code == 200
    # The run's noise is simulated, which a total for release does not bound.
    first = attack_later(api, ended, ATTACK)
    assert api.set_budget(federation, **total).status_code == 200
    problem = body_of(ask(api, ended, ATTACK), 409)
    assert problem["type"].endswith("/budget-exhausted")
    assert "the attack `cluster-membership`" in problem["detail"]
    assert later_of(api, ended, first["id"])["status"] == "succeeded"
    assert ask(api, ended, CANARIES).status_code == 202


def test_a_run_that_comes_out_otherwise_is_not_attacked(api, looks, ended, monkeypatch):
    # As another backend would: the last bits of the losses differ.
    repeat = workers.attacks.attacked_experiment.new_run

    def otherwise(cell, **options):  # type: ignore[no-untyped-def]
        changed = cell.spec.model_copy(update={"seed": cell.spec.seed + 1})
        return repeat(type(cell)(changed, cell.federation), **options)

    monkeypatch.setattr(workers.attacks.attacked_experiment, "new_run", otherwise)
    found = attack_later(api, ended, ATTACK)
    assert (found["status"], found["status_reason"]) == ("failed", "not-repeated")
    assert found["status_detail"].startswith("the run could not be repeated exactly: its ledger")
    assert looks.looked == []
    assert api.get(f"/v1/experiments/{ended}").json()["alarms"] is None
    listed = api.get(f"/v1/experiments/{ended}/attacks/later").json()["items"]
    assert [one["status"] for one in listed] == ["failed"]


def test_an_end_that_is_asked_for_hides_nothing(api, looks, ended, monkeypatch):
    monkeypatch.setattr(workers.attacks.attacked_experiment, "_LOOK_SECONDS", 0.0)
    looks.alarm = ALARM
    asked = ask(api, ended, ATTACK, ATTACK).json()
    path = f"/v1/experiments/{ended}/attacks/later/{asked['id']}/cancel"

    def cancel_the_second() -> None:
        if len(looks.looked) == 2:
            assert api.post(path).json()["status"] == "cancelling"

    looks.between = cancel_the_second
    found = work_later(api, asked["id"])
    assert (found["status"], found["alarms"]) == ("cancelled", 1)
    assert [one["section"]["status"] for one in found["items"]] == ["done", "not-done"]
    assert api.get(f"/v1/experiments/{ended}").json()["alarms"] == 1
    assert api.post(path).status_code == 200
    # Before a worker has it, nothing was tried.
    looks.between = lambda: None
    waiting = ask(api, ended, ATTACK).json()["id"]
    cancelled = api.post(f"/v1/experiments/{ended}/attacks/later/{waiting}/cancel").json()
    assert (cancelled["status"], cancelled["items"]) == ("cancelled", [])
    assert work_later(api, waiting)["status"] == "cancelled"
    # While the first goes on, nothing was found.
    begun = ask(api, ended, ATTACK).json()["id"]
    looks.between = lambda: api.post(f"/v1/experiments/{ended}/attacks/later/{begun}/cancel")
    found = work_later(api, begun)
    stated = (found["status"], found["status_reason"], found["items"], found["alarms"])
    assert stated == ("cancelled", "cancelled-by-caller", [], None)


def test_attacks_under_which_workers_are_lost_are_carried_out_by_another(api, looks, ended):
    """A killed process says nothing: its lease runs out, and its unit is taken back."""
    asked = ask(api, ended, ATTACK).json()["id"]

    def die() -> None:
        raise SystemExit

    looks.between = die
    with pytest.raises(SystemExit):
        work_later(api, asked)
    give_back(api, stored_later(api, asked).unit_id)
    looks.between = lambda: None
    assert work_later(api, asked)["items"][0]["section"]["status"] == "done"
    # In every attempt: it has failed, and stays on the list.
    lost = ask(api, ended, ATTACK).json()["id"]
    taken = Unit(id=stored_later(api, lost).unit_id, project_id=api.project_id)
    with api.database.write() as session:
        why = {"reason": "worker-lost", "detail": "worker lost", "shown": "worker lost"}
        fail_unit(session, taken, **why, key=KEY)
    found = later_of(api, ended, lost)
    assert (found["status"], found["status_reason"]) == ("failed", "worker-lost")
    assert ask(api, ended, ATTACK).status_code == 202


CENTRAL = {"mechanism": "gaussian-central", "noise_multiplier": 1.0, "clip": 1.0, "delta": 1e-5}
MEMBERSHIP = {"kind": "membership"}
ONE_MODEL = {"hypotheses": 1, "rounds": 2}


def test_weak_evidence_of_attacks_that_draw_anew_adds_up_to_an_alarm(api, looks):
    """30 alone is not enough; with noise of its own each time, it soon is. The same of one seed
    stays what it is."""
    looks.e_value = 30.0
    found = {}
    for noise in ("release", "simulation"):
        privacy = {**CENTRAL, "noise": noise}
        body = spec(privacy=privacy, training=ONE_MODEL, gates=[], attacks=[MEMBERSHIP])
        id_ = api.submit({**body, "name": noise})["id"]
        work(api, id_)
        sections = [*report_of(api, id_)["attacks"]]
        for _ in range(2):
            sections += [one["section"] for one in attack_later(api, id_, MEMBERSHIP)["items"]]
        found[noise] = [one["alarm"] is not None for one in sections]
        checks = api.get(f"/v1/experiments/{id_}/report/verification").json()["checks"]
        outcomes = {one["name"]: one["outcome"] for one in checks}
        assert outcomes["attacks.evidence"] == "pass"
        assert "fail" not in outcomes.values()
        for altered in ({"evidence": 1.0}, {"e_value": 1.5}, {"e_basis": "other"}):
            document = {"attacks": [*sections[:-1], {**sections[-1], **altered}]}
            [judged] = evidence_checks(document, ReadLater([], [], []))
            assert judged.outcome == "fail"
        alarms = api.get(f"/v1/experiments/{id_}").json()["alarms"] or 0
        assert alarms == sum(found[noise])
    assert found == {"release": [False, True, True], "simulation": [False] * 3}


@pytest.mark.parametrize("noise", ["simulation", "release"])
def test_a_run_that_its_canaries_end_is_charged_and_announced(api, monkeypatch, noise):
    target = fedaudit.training.mechanisms.gaussian
    whole = target.unit_gaussian
    monkeypatch.setattr(target, "unit_gaussian", lambda *a, **named: whole(*a, **named) / 8)
    privacy = {**CENTRAL, "noise": noise, "noise_multiplier": 2.0}
    training = {**ONE_MODEL, "rounds": 60, "stopping": {"patience": None}}
    body = spec(privacy=privacy, training=training, gates=[], attacks=[{**CANARIES, "stop": True}])
    id_ = api.submit({**body, "model": {"kind": "mlp", "hidden": [5]}})["id"]
    work(api, id_)
    experiment, report = api.get(f"/v1/experiments/{id_}").json(), report_of(api, id_)
    assert (experiment["status"], experiment["status_reason"]) == ("succeeded", "noise-too-small")
    assert experiment["alarms"] == 1
    assert "alarm.raised" in events_of(api, id_)
    played = report["utility"]["rounds"]
    assert report["utility"]["stopped_by"] == "audit"
    assert played == report["attacks"][0]["stopped_in"] < 60
    assert experiment["progress"]["round"] == report["integrity"]["entries"] == played
    assert failed_checks(api, id_) == []
    page = text_of(signed_in(api).get(f"/experiments/{id_}"))
    assert "canaries beside it proved its noise too small" in page
    # It is repeated as far as it went, and its evidence is where the next attack begins.
    later = attack_later(api, id_, {**CANARIES, "count": 8})
    assert later["status"] == "succeeded"
    assert later["items"][0]["section"]["evidence"] > 1


def test_noise_that_cannot_be_drawn_again_leaves_what_is_stored(api: Api, looks: Looks) -> None:
    released = spec(privacy={**CENTRAL, "noise": "release"}, training=ONE_MODEL, gates=[])
    id_ = api.submit(released)["id"]
    work(api, id_)
    model = api.get(f"/v1/experiments/{id_}/model").content
    found = attack_later(api, id_, {"kind": "membership"})
    assert (found["status"], found["basis"]) == ("succeeded", "stored-model")
    [attacked] = looks.looked
    stored = np.concatenate([one.ravel() for one in safetensors.numpy.load(model).values()])
    assert sorted(attacked.result.hypotheses.ravel()) == sorted(stored)
    assert attacked.run.ledger.entries == report_of(api, id_)["integrity"]["entries"]
    with api.database.write() as session:
        ExpiredFileRepository(session, api.project_id).note(
            "model", id_, reason="expired", kept_days=1
        )
    refused = ask(api, id_, CANARIES, {"kind": "membership"})
    [fault] = refused.json()["errors"]
    assert fault["pointer"] == "/attacks/1/kind"
    assert "cannot be repeated" in fault["message"]
    assert "expired on" in fault["message"]
    assert attack_later(api, id_, CANARIES)["basis"] == "companions"


def test_people_find_a_later_alarm_on_every_page(api: Api, looks: Looks, ended: str) -> None:
    signer = key_of(api, "Ada", "reports:sign", "reports:read")
    allowed = {"decision": "approved", "note": "As it stands."}
    assert api.post(f"/v1/experiments/{ended}/sign-offs", json=allowed, key=signer).is_success
    looks.alarm = ALARM
    later = attack_later(api, ended, ATTACK)["id"]
    visitor = signed_in(api)
    assert "1 alarm" in text_of(visitor.get("/"))
    experiment = text_of(visitor.get(f"/experiments/{ended}"))
    assert "1 attack raised an alarm" in experiment
    page = visitor.get(f"/experiments/{ended}/report")
    text = text_of(page)
    assert "An attack after the report was signed raised an alarm." in text
    assert 'class="answer answer-do-not-release"' in page.text
    assert "Gates that are judged otherwise now" in text
    assert "An attack raised an alarm after this was signed off." in text
    file = f"/experiments/{ended}/attacks/later/{later}/0/scores.csv"
    assert f'href="{file}"' in page.text
    assert visitor.get(file).content.startswith(b"largest")
    reading = visitor.get(f"/experiments/{ended}/readings/model-card").text
    assert "ALARM" in reading
    reader = signed_in(api, "reports:read")
    assert "scores.csv" not in reader.get(f"/experiments/{ended}/report").text


def test_what_cannot_be_attacked_is_refused_with_its_reason(api, looks, ended):
    first = ask(api, ended, ATTACK)
    assert first.headers["location"].endswith(first.json()["id"])
    other = ask(api, ended, ATTACK)
    assert (other.status_code, other.json()["attacks_id"]) == (409, first.json()["id"])
    assert work_later(api, first.json()["id"])["status"] == "succeeded"
    faulty = ask(api, ended, {**ATTACK, "noise": 1}, {"kind": "other"})
    assert faulty.status_code == 422
    assert {one["pointer"] for one in faulty.json()["errors"]} == {
        "/attacks/0/noise",
        "/attacks/1/kind",
    }
    images = ask(api, ended, {"kind": "gradient-leakage"})
    assert images.json()["errors"][0]["pointer"] == "/attacks/0/kind"
    assert ask(api, ended).json()["errors"][0]["pointer"] == "/attacks"
    waiting = api.submit()["id"]
    assert "is queued; only one that has succeeded" in ask(api, waiting, ATTACK).json()["detail"]
    assert ask(api, ended, ATTACK, key=api.key_with("reports:read")).status_code == 403
    elsewhere = api.key_with("experiments:write", project="elsewhere")
    assert ask(api, ended, ATTACK, key=elsewhere).status_code == 404
    missing = f"/v1/experiments/{waiting}/attacks/later/{first.json()['id']}"
    assert api.get(missing).status_code == 404
    assert later_of(api, ended, first.json()["id"])["number"] == 1
