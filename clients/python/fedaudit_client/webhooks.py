"""Calls on webhooks: addresses that the service tells of a project's events."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from fedaudit_client.http.answers import Json, json_object, nothing
from fedaudit_client.http.calls import Calls, call, pages, stream
from fedaudit_client.http.request import Request, path_part


class WebhookCalls(Calls):
    """What can be done with webhooks. The key needs the scope `admin`."""

    @stream
    def webhooks(self) -> AsyncGenerator[Json, None]:
        """Every webhook of the key's project, oldest first."""
        return pages(self._wire, "webhooks", {}, Json)

    @call
    def webhook(self, webhook_id: str) -> Request[Json]:
        """One webhook, without its secret."""
        return Request("GET", _path(webhook_id), json_object)

    @call
    def create_webhook(
        self, url: str, events: Sequence[str], *, description: str = ""
    ) -> Request[Json]:
        """A new webhook; `secret` in the answer is shown this once."""
        body = {"url": url, "events": list(events), "description": description}
        return Request("POST", "webhooks", json_object, body={"json": body})

    @call
    def change_webhook(self, /, webhook_id: str, **changes: Any) -> Request[Json]:
        """Change `url`, `events`, `description` or `enabled`; what is not named stays."""
        return Request("PATCH", _path(webhook_id), json_object, body={"json": changes})

    @call
    def delete_webhook(self, webhook_id: str) -> Request[None]:
        """Delete a webhook, with whatever waits for it."""
        return Request("DELETE", _path(webhook_id), nothing)

    @call
    def test_webhook(self, webhook_id: str) -> Request[Json]:
        """Have the event `webhook.test` sent; gives its delivery."""
        return Request("POST", f"{_path(webhook_id)}/test", json_object)

    @call
    def rotate_webhook_secret(
        self, webhook_id: str, *, overlap_seconds: int = 86400
    ) -> Request[Json]:
        """Replace the secret; the old one signs too for so long. `secret` is shown this once."""
        parameters = {"overlap_seconds": overlap_seconds}
        path = f"{_path(webhook_id)}/rotate-secret"
        return Request("POST", path, json_object, params=parameters)

    @stream
    def webhook_deliveries(self, webhook_id: str) -> AsyncGenerator[Json, None]:
        """What was sent in the last 30 days and what waits, newest first."""
        return pages(self._wire, f"{_path(webhook_id)}/deliveries", {}, Json)

    @call
    def redeliver_webhook(self, webhook_id: str, delivery_id: str) -> Request[Json]:
        """Have a delivery sent again, under the same `webhook-id`."""
        path = f"{_path(webhook_id)}/deliveries/{path_part(delivery_id)}/redeliver"
        return Request("POST", path, json_object)


def _path(webhook_id: str) -> str:
    return f"webhooks/{path_part(webhook_id)}"
