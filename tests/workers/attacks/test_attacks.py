"""Attacks in a worker: as here, under its lease, cancelled, given back and not tried for ever."""

import pytest
from celery.worker import state as celery_state

import fedaudit.attacks.feasibility
import workers.attacks.attacked_experiment
from fedaudit.spec.errors import FieldError, InvalidInputError
from tests.api.service import Api, spec
from tests.attacks.doubles import ALARM, ATTACK, Looks
from tests.training.specs import ran
from tests.workers.attacks.attacked_service import ATTACKED, events_of, give_back, report_of
from tests.workers.serving import failed_checks, work


def test_the_service_finds_what_is_found_here(api: Api, looks: Looks) -> None:
    id_ = api.submit(ATTACKED)["id"]
    assert api.get(f"/v1/experiments/{id_}/attacks").status_code == 404
    work(api, id_)
    here = ran(ATTACKED)
    report = report_of(api, id_)
    assert report["attacks"] == here.report["attacks"]
    assert report["integrity"]["ledger_hash"] == here.report["integrity"]["ledger_hash"]
    assert events_of(api, id_) == ["attack.started", "attack.completed"]
    [attack] = api.get(f"/v1/experiments/{id_}/attacks").json()["items"]
    assert attack["section"] == report["attacks"][0]
    [file] = attack["files"]
    assert (file["name"], attack["files_reason"]) == ("scores.csv", None)
    answer = api.get(file["href"])
    assert answer.content == here.attacks[0].files["scores.csv"]
    assert (answer.headers["cache-control"], len(answer.content)) == (
        "no-store",
        file["size_bytes"],
    )
    assert api.get(f"/v1/experiments/{id_}").json()["alarms"] == 0
    # Files are confidential, and their export is on record.
    path = f"/v1/experiments/{id_}/attacks"
    reader = api.key_with("reports:read", "experiments:read")
    for one in (path, f"{path}/0/scores.csv"):
        assert api.get(one, key=reader).status_code == 403
        assert api.get(one, key=api.key_with("ledger:read", project="elsewhere")).status_code == 404
    for one in ("0/other.csv", "1/scores.csv", "0/..%2Fscores.csv"):
        assert api.get(f"{path}/{one}").status_code == 404
    assert api.get(f"{path}/-1/scores.csv").status_code == 422
    assert api.get(f"{path}/0/scores.csv", key=api.key_with("ledger:read")).status_code == 200
    [entry, *_] = api.get("/v1/audit-log?action=ledger.exported").json()["items"]
    assert entry["details"]["form"] == "attacks/0/scores.csv"
    # No page that readers of reports see leads to it.
    page = api.get(f"/v1/experiments/{id_}/report.html", key=reader).text
    assert "scores.csv" not in page


def test_an_alarm_is_announced_and_shown_on_every_page(api: Api, looks: Looks) -> None:
    body = {"url": "http://127.0.0.1:9/", "events": ["alarm.raised"]}
    webhook = api.post("/v1/webhooks", json=body).json()
    quiet = api.submit(ATTACKED)["id"]
    work(api, quiet)
    looks.alarm = ALARM
    loud = api.submit({**ATTACKED, "name": "loud", "attacks": [ATTACK, ATTACK]})["id"]
    work(api, loud)
    plain = api.submit(spec(name="plain"))["id"]
    work(api, plain)
    report = report_of(api, loud)
    assert report["attacks"][1]["alarm"] == ALARM.model_dump()
    assert events_of(api, loud)[-2:] == ["alarm.raised"] * 2
    [delivery] = api.get(f"/v1/webhooks/{webhook['id']}/deliveries").json()["items"]
    assert delivery["event"] == "alarm.raised"

    def listed(query: str) -> list[str]:
        return [one["id"] for one in api.get(f"/v1/experiments?{query}").json()["items"]]

    assert listed("alarm=true") == [loud]
    assert listed("alarm=false") == [plain, quiet]
    alarms = {one["id"]: one["alarms"] for one in api.get("/v1/experiments").json()["items"]}
    assert alarms == {quiet: 0, loud: 2, plain: None}
    gate = {"figure": "participations_max", "op": "le", "value": 100}
    bound = {"figure": "leakage_max", "op": "le", "value": 1e9}
    allowed = {"allow_heuristic": True, "allow_conditional": True, "allow_simulation": True}
    judged = api.post(
        "/v1/gates/evaluations", json={"experiment_id": loud, "gates": [gate, {**bound, **allowed}]}
    ).json()
    assert [one["outcome"] for one in judged["gates"]] == ["pass", "insufficient_evidence"]
    assert failed_checks(api, loud) == []


def test_cancelling_is_seen_while_an_attack_goes_on(api, looks, monkeypatch):
    id_ = api.submit(ATTACKED)["id"]

    def cancel() -> None:
        assert api.post(f"/v1/experiments/{id_}/cancel").status_code == 200

    looks.between = cancel
    monkeypatch.setattr(workers.attacks.attacked_experiment, "_LOOK_SECONDS", 0.0)
    work(api, id_)
    body = api.get(f"/v1/experiments/{id_}").json()
    assert (body["status"], body["status_reason"]) == ("cancelled", "cancelled-by-caller")
    assert body["progress"]["round"] == 3
    assert api.get(f"/v1/experiments/{id_}/attacks").status_code == 404


def test_a_worker_that_is_stopped_gives_back_and_the_next_attacks_anew(api, looks):
    id_ = api.submit(ATTACKED)["id"]
    looks.between = lambda: setattr(celery_state, "should_stop", 0)
    work(api, id_)
    assert api.stored(id_).status == "running"
    assert events_of(api, id_) == ["attack.started", "attack.stopped"]
    celery_state.should_stop = None
    looks.between = lambda: None
    work(api, id_)
    assert api.stored(id_).status == "succeeded"
    assert report_of(api, id_)["attacks"][0]["status"] == "done"


def test_an_attack_under_which_workers_are_lost_is_not_tried_for_ever(api, looks):
    """A killed process says nothing: its unit is taken back, and only the events tell of it."""
    id_ = api.submit(ATTACKED)["id"]

    def die() -> None:
        raise SystemExit

    looks.between = die
    for _ in range(2):
        with pytest.raises(SystemExit):
            work(api, id_)
        give_back(api, api.stored(id_).unit_id)
    looks.between = lambda: None
    work(api, id_)
    assert api.stored(id_).status == "succeeded"
    [section] = report_of(api, id_)["attacks"]
    assert section["status"] == "not-done"
    assert "2 workers that carried it out were lost" in section["reason"]


def test_what_cannot_be_carried_out_is_refused_before_it_costs_anything(api, monkeypatch):
    monkeypatch.setattr(
        fedaudit.attacks.feasibility,
        "faults",
        lambda attack, _cell, *, at: [FieldError(f"{at}/kind", f"too few for {attack.kind}")],
    )
    asked = {**ATTACKED, "attacks": [ATTACK, ATTACK]}
    for path in ("/v1/experiments", "/v1/experiments?validate_only=true"):
        answer = api.post(path, json=asked, key=api.key_with("experiments:write"))
        assert answer.status_code == 422, answer.text
        assert [one["pointer"] for one in answer.json()["errors"]] == [
            "/attacks/0/kind",
            "/attacks/1/kind",
        ]
    assert api.counts()["experiments"] == 0
    with pytest.raises(InvalidInputError, match="/attacks/0/kind"):
        ran(asked)
