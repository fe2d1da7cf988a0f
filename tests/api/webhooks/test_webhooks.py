"""Webhooks: registered by the front door, delivered to a real receiver, repeated until they
arrive."""

import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from structlog.testing import capture_logs

import workers.webhooks
from api.app import create_app
from infrastructure.secrets_key import SecretBox
from infrastructure.settings import SettingsError
from infrastructure.signing_keys import ensure_key_file
from infrastructure.storage import Storage
from models.repositories import AnnouncementRepository, ExperimentRepository
from models.tables.accounts import WebhookDelivery, WebhookEndpoint
from models.values import SCOPES, utc_now
from tests.api.budgets.test_epsilon_budgets import central, plan_of, set_total
from tests.api.budgets.test_leakage_budgets import FIXED, WORST, run
from tests.api.budgets.test_shared_budgets import CONTENT, metric
from tests.api.service import Api, body_of, fail, finish, key_of, running_api, settings_for, spec
from tests.api.webhooks.webhooks import deliver, deliveries, register
from tests.workers.receiver import Receiver, receiving
from workers import sweeper
from workers.sweeper import Expiry
from workers.webhooks import PAUSES_SECONDS, WebhookDispatcher


@pytest.fixture
def api(sqlite_url: str, tmp_path: Path) -> Iterator[Api]:
    """An API that may call this machine."""
    with running_api(settings_for(sqlite_url, tmp_path, webhooks_allow_private=True)) as found:
        yield found


@pytest.fixture
def dispatcher(api: Api) -> WebhookDispatcher:
    """Delivers when it is asked to look."""
    return WebhookDispatcher(api.settings, api.database)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def path_of(webhook: Any) -> str:
    return f"/v1/webhooks/{webhook['id']}"


def try_out(api: Api, webhook: Any) -> None:
    body_of(api.post(f"{path_of(webhook)}/test"), 202)


def test_an_end_is_delivered_again_until_it_is_taken_and_says_ids_and_outcomes_alone(
    api: Api, dispatcher: WebhookDispatcher, receiver: Receiver
) -> None:
    webhook = register(api, receiver.url, events=["experiment.finished", "gate.failed"])
    id_ = api.submit(spec(gates=[{"figure": "leakage_max", "op": "le", "value": 0.5}]))["id"]
    assert finish(api, id_)["gate_outcome"] == "insufficient_evidence"
    receiver.answers = [500, 302, 503]
    states = [[one["state"] for one in deliver(api, dispatcher, webhook)] for _ in range(3)]
    assert states[-1] == ["delivered", "delivered"]
    data_by_type = {one["type"]: one["data"] for one in receiver.verified(webhook["secret"])[-2:]}
    common = {"project": "hospital", "experiment_id": id_}
    ended = {"status": "succeeded", "status_reason": None}
    assert data_by_type == {
        "experiment.finished": {**common, **ended, "gate_outcome": "insufficient_evidence"},
        "gate.failed": {**common, "outcome": "insufficient_evidence"},
    }
    # Nobody followed the redirect, and every attempt at an event has the same id.
    assert (len(receiver.received), len(set(receiver.ids))) == (5, 2)
    attempts = [one["attempts"] for one in deliveries(api, webhook)]
    assert sorted(attempts) in ([2, 3], [1, 4])
    assert api.get(path_of(webhook)).json()["failing_since"] is None


def test_each_way_to_end_is_delivered_and_what_is_rolled_back_is_not(api, receiver):
    webhook = register(api, receiver.url, events=["experiment.finished"])
    failed, cancelled, kept = (api.submit(spec(seed=seed))["id"] for seed in (1, 2, 3))
    fail(api, failed)
    assert api.post(f"/v1/experiments/{cancelled}/cancel").status_code == 200
    with suppress(InterruptedError), api.database.write() as session:
        ExperimentRepository(session, api.project_id).conclude(
            kept, status="failed", reason="worker-lost"
        )
        raise InterruptedError
    data = [one["data"] for one in deliveries(api, webhook)]
    ended = [(one["experiment_id"], one["status"]) for one in data]
    assert ended == [(cancelled, "cancelled"), (failed, "failed")]


def test_a_receiver_that_is_gone_is_left_alone_until_somebody_enables_it(api, dispatcher, receiver):
    webhook = register(api, receiver.url)
    address = path_of(webhook)
    receiver.answers = [410]
    try_out(api, webhook)
    [sent] = deliver(api, dispatcher, webhook)
    assert (sent["state"], sent["status_code"], sent["next_attempt_at"]) == ("failed", 410, None)
    shown = api.get(address).json()
    assert (shown["enabled"], shown["disabled_reason"]) == (False, "the receiver answered 410 Gone")
    again = f"{address}/deliveries/{sent['id']}/redeliver"
    for refused in (f"{address}/test", again):
        assert "410 Gone" in body_of(api.post(refused), 409)["detail"]
    assert api.request("PATCH", address, json={"enabled": True}).json()["disabled_reason"] is None
    assert api.post(again).status_code == 202
    [sent] = deliver(api, dispatcher, webhook)
    assert (sent["state"], sent["attempts"]) == ("delivered", 2)
    assert len(set(receiver.ids)) == 1


def test_the_schedule_ends_and_days_of_failures_disable(api, dispatcher, receiver):
    webhook = register(api, receiver.url)
    receiver.answers = [500] * 3
    try_out(api, webhook)
    api.change(update(WebhookDelivery).values(retries=len(PAUSES_SECONDS) - 1))
    states = [deliver(api, dispatcher, webhook)[0]["state"] for _ in range(2)]
    assert states == ["waiting", "failed"]
    assert api.get(path_of(webhook)).json()["enabled"]
    long_ago = utc_now() - timedelta(days=5, minutes=1)
    api.change(update(WebhookEndpoint).values(failing_since=long_ago))
    try_out(api, webhook)
    deliver(api, dispatcher, webhook)
    shown = api.get(path_of(webhook)).json()
    assert not shown["enabled"]
    assert all(one in shown["disabled_reason"] for one in ("every attempt since", "500"))


def test_a_fault_that_nobody_foresaw_counts_as_an_attempt(api, dispatcher, receiver, monkeypatch):
    monkeypatch.setattr(workers.webhooks, "post", lambda *_, **__: int("odd"))
    webhook = register(api, receiver.url)
    try_out(api, webhook)
    with capture_logs() as logs:
        [sent] = deliver(api, dispatcher, webhook)
        for thread in dispatcher._sending:
            thread.join()
    assert (sent["state"], sent["attempts"], sent["error"]) == ("waiting", 1, "ValueError")
    [said] = [line for line in logs if line["event"] == "webhook not delivered"]
    assert (said["webhook"], said["error"]) == (webhook["id"], "ValueError")


def test_a_type_that_is_subscribed_to_no_more_does_no_harm(api: Api) -> None:
    webhook = register(api, "https://example.org", events=["gate.failed"])
    api.change(update(WebhookEndpoint).values(events=["round.finished", "gate.failed"]))
    described = {"json": {"description": "of an earlier version"}}
    for method, sent in (("GET", {}), ("PATCH", described)):
        shown = api.request(method, path_of(webhook), **sent).json()
        assert shown["events"] == ["round.finished", "gate.failed"]
    body = {"url": "https://example.org", "events": ["round.finished"]}
    assert api.post("/v1/webhooks", json=body).status_code == 422


def test_a_rotated_secret_and_the_new_one_both_verify_until_the_old_one_ends(
    api: Api, dispatcher: WebhookDispatcher, receiver: Receiver
) -> None:
    webhook = register(api, receiver.url)
    rotate = f"{path_of(webhook)}/rotate-secret?overlap_seconds="
    rotated = api.post(f"{rotate}3600").json()
    assert rotated["previous_secret_until"] is not None
    try_out(api, webhook)
    deliver(api, dispatcher, webhook)
    for secret in (webhook["secret"], rotated["secret"]):
        assert receiver.verified(secret)[0]["type"] == "webhook.test"
    assert len(receiver.received[0][0]["webhook-signature"].split(" ")) == 2
    newest = api.post(f"{rotate}0").json()
    receiver.received.clear()
    try_out(api, webhook)
    deliver(api, dispatcher, webhook)
    assert receiver.verified(newest["secret"])
    with pytest.raises(Exception, match="No matching signature"):
        receiver.verified(rotated["secret"])


def test_an_address_gets_one_event_at_a_time_and_delays_no_other(api, dispatcher, receiver):
    slow, other = (register(api, receiver.url) for _ in range(2))
    for webhook in (slow, slow, other):
        try_out(api, webhook)
    receiver.answers = [None, None]
    dispatcher.dispatch_due()
    dispatcher.dispatch_due()
    states = [[one["state"] for one in deliveries(api, webhook)] for webhook in (slow, other)]
    assert states == [["waiting", "sending"], ["sending"]]


def test_a_secret_is_shown_once_and_stored_encrypted(api: Api, receiver: Receiver) -> None:
    webhook = register(api, receiver.url, key=key_of(api, "Ada", "admin"))
    secret = webhook["secret"]
    listed = api.get("/v1/webhooks").json()["items"]
    assert [one["created_by"]["person"] for one in listed] == ["Ada"]
    assert secret not in json.dumps(listed) + api.get(path_of(webhook)).text
    row = api.row(WebhookEndpoint, webhook["id"])
    assert secret.removeprefix("whsec_") not in row.secret
    assert SecretBox(api.settings).decrypt(row.secret) == secret


def test_deliveries_go_with_age_and_their_webhook_and_none_is_kept_without_a_receiver(
    api: Api, dispatcher: WebhookDispatcher, receiver: Receiver
) -> None:
    webhook = register(api, receiver.url, events=["gate.failed"])
    with api.database.write() as session:
        announcements = AnnouncementRepository(session, api.project_id)
        announcements.ledger_round_refused("a-ledger", round_=3)
        ended = {"status": "failed", "reason": None, "gate_outcome": None}
        announcements.experiments_ended("an-experiment", **ended)
        announcements.gates_judged("an-experiment", gate_outcome=None)
    assert deliveries(api, webhook) == []
    # Old ones are forgotten.
    for _ in range(2):
        try_out(api, webhook)
    newest, oldest = deliveries(api, webhook)
    with api.database.write() as session:
        session.get_one(WebhookDelivery, oldest["id"]).created_at -= timedelta(days=31)
    Expiry(api.settings, api.database, Storage(api.settings.storage_url)).expire()
    assert [one["id"] for one in deliveries(api, webhook)] == [newest["id"]]
    assert api.request("DELETE", path_of(webhook)).status_code == 204
    dispatcher.dispatch_due()
    assert receiver.received == []
    assert api.counts()["webhook_deliveries"] == 0


# -- `budget.low`: once for each crossing, to all whose spending counts, without a figure ---------


URL = "https://hooks.example.org/fedaudit"


def _delivered(api: Api, webhook: Any) -> list[dict[str, Any]]:
    found = [one["data"] for one in deliveries(api, webhook)]
    assert all(set(one) == {"project", "federation_id", "budget"} for one in found)
    return found


def test_a_crossing_is_announced_once_and_again_after_the_budget_had_recovered(api: Api) -> None:
    webhook = register(api, URL, events=["budget.low"])
    id_ = api.submit(run(**FIXED))["federation_id"]
    api.set_budget(id_, 3.3 * WORST, **FIXED)
    api.submit(run(**FIXED))
    assert _delivered(api, webhook) == []
    # Trying it out tells nobody.
    assert api.check(run(**FIXED)).status_code == 200
    assert _delivered(api, webhook) == []
    third = api.submit(run(**FIXED))
    [event] = _delivered(api, webhook)
    assert (event["project"], event["federation_id"]) == ("hospital", id_)
    absent = dict.fromkeys(("delta", "adjacency", "observer"))
    assert event["budget"] == {"book": "simulation", "figure": "leakage", **absent, **FIXED}
    # Already low: a smaller total crosses nothing.
    api.set_budget(id_, 3.1 * WORST, **FIXED)
    assert len(_delivered(api, webhook)) == 1
    fail(api, third["id"])
    api.submit(run(**FIXED))
    assert len(_delivered(api, webhook)) == 2


def test_a_total_that_is_lowered_crosses_too_and_an_epsilon_is_composed(api: Api) -> None:
    webhook = register(api, URL, events=["budget.low"])
    value = central()
    id_ = api.submit(value)["federation_id"]
    plan = plan_of(value)
    spent = plan.largest("final_model", plan.steps)
    set_total(api, id_, 10 * spent)
    assert _delivered(api, webhook) == []
    set_total(api, id_, 1.05 * spent)
    [event] = _delivered(api, webhook)
    assert (event["budget"]["figure"], event["budget"]["observer"]) == ("epsilon", "final_model")


def test_another_project_that_draws_on_the_same_data_lets_the_owner_know(api: Api) -> None:
    webhook = register(api, URL, events=["budget.low"])
    api.put_source("incomes.csv", CONTENT)
    value = metric()
    id_ = api.submit(value)["federation_id"]
    api.set_budget(id_, 4.1, book="release", **FIXED)
    assert _delivered(api, webhook) == []
    api.submit(value, key=api.key_with(*SCOPES, project="another"))
    [event] = _delivered(api, webhook)
    assert (event["federation_id"], event["budget"]["radius"]) == (id_, 0.5)


def test_a_key_that_cannot_be_used_ends_the_start(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbage = tmp_path / "garbage"
    garbage.write_text("no key")
    garbage.chmod(0o600)
    settings = api.settings.model_copy(update={"secrets_key_file": garbage})
    with pytest.raises(SettingsError, match="something else than keys"):
        create_app(settings)
    ensure_key_file(signing_key := tmp_path / "signing-key.pem")
    settings = settings.model_copy(update={"signing_key_file": signing_key})
    monkeypatch.setattr(sweeper, "start", lambda: (settings, api.database))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit, match="something else than keys"):
        sweeper.main()
