"""Registering webhooks, and delivering what waits without waiting."""

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import update

from models.clock import seconds_from_now
from models.tables.accounts import WebhookDelivery
from tests.api.service import Api
from workers.webhooks import WebhookDispatcher

EVERY = ("experiment.finished", "gate.failed", "budget.low", "ledger.round_refused")
_PATIENCE_SECONDS = 20.0


def register(api: Api, url: str, *, events: Sequence[str] = EVERY, **options: Any) -> Any:
    """A webhook, with its secret."""
    made = api.post("/v1/webhooks", json={"url": url, "events": list(events)}, **options)
    assert made.status_code == 201, made.text
    return made.json()


def deliveries(api: Api, webhook: Any) -> list[dict[str, Any]]:
    """Newest first."""
    found: list[dict[str, Any]] = api.get(f"/v1/webhooks/{webhook['id']}/deliveries").json()[
        "items"
    ]
    return found


def deliver(api: Api, dispatcher: WebhookDispatcher, webhook: Any) -> list[dict[str, Any]]:
    """Make one attempt at all that waits, however long it would wait."""
    before = {one["id"]: one["attempts"] for one in deliveries(api, webhook)}
    waits = [one["id"] for one in deliveries(api, webhook) if one["state"] == "waiting"]
    with api.database.write() as session:  # as if every pause between attempts were over
        session.execute(update(WebhookDelivery).values(available_at=seconds_from_now()))
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        dispatcher.dispatch_due()
        found = {one["id"]: one for one in deliveries(api, webhook)}
        if all(
            found[id_]["attempts"] > before[id_] and found[id_]["state"] != "sending"
            for id_ in waits
        ):
            return deliveries(api, webhook)
        time.sleep(0.01)
    raise AssertionError(f"gave up waiting for {deliveries(api, webhook)}")
