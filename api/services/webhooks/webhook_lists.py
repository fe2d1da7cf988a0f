"""Pages of webhooks and of what was sent to them, and sending something again."""

from typing import Any

from pydantic import TypeAdapter

from api.http.cursors import decode_cursor, encode_cursor
from api.http.problems import ProblemError, not_found
from api.schemas.base import PageParameters
from api.schemas.webhooks import DeliveryBody, DeliveryPage, WebhookBody, WebhookPage
from api.services.base.lookups import find_webhook
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.base import Text
from models.identifiers import is_id
from models.repositories import (
    AnnouncementRepository,
    WebhookDeliveryRepository,
    WebhookEndpointRepository,
)
from models.tables.operations import WebhookEndpoint

_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])


def webhook_page(resources: Resources, caller: Caller, parameters: PageParameters) -> WebhookPage:
    """The project's webhooks, oldest first. Raises ProblemError for another list's cursor."""
    cursor = decode_cursor("webhooks", parameters.cursor, _KEY)
    with resources.database.read() as session:
        found = WebhookEndpointRepository(session, caller.project_id).list(
            cursor=cursor, limit=parameters.limit
        )
    return WebhookPage(
        items=[WebhookBody.of(row) for row in found.items],
        next_cursor=encode_cursor("webhooks", found.next_cursor),
    )


def get_webhook_body(resources: Resources, caller: Caller, webhook_id: str) -> WebhookBody:
    """One of them. Raises ProblemError where the project has no such webhook."""
    with resources.database.read() as session:
        return WebhookBody.of(find_webhook(session, caller, webhook_id))


def delivery_page(
    resources: Resources, caller: Caller, webhook_id: str, parameters: PageParameters
) -> DeliveryPage:
    """A webhook's deliveries, newest first. Raises ProblemError as the others do."""
    route = f"webhook-deliveries:{webhook_id}"
    cursor = decode_cursor(route, parameters.cursor, _KEY)
    with resources.database.read() as session:
        find_webhook(session, caller, webhook_id)
        found = WebhookDeliveryRepository(session, caller.project_id).list(
            webhook_id, cursor=cursor, limit=parameters.limit
        )
    return DeliveryPage(
        items=[DeliveryBody.of(row) for row in found.items],
        next_cursor=encode_cursor(route, found.next_cursor),
    )


def send_test(resources: Resources, caller: Caller, webhook_id: str) -> DeliveryBody:
    """Let `webhook.test` be sent. Raises ProblemError where the webhook is disabled, or missing."""
    with resources.database.write() as session:
        _refuse_disabled(find_webhook(session, caller, webhook_id, lock=True))
        announcements = AnnouncementRepository(session, caller.project_id)
        return DeliveryBody.of(announcements.test(webhook_id))


def send_again(
    resources: Resources, caller: Caller, webhook_id: str, delivery_id: str
) -> DeliveryBody:
    """Let a delivery be sent again. Raises ProblemError as `send_test` does, and where it is just
    being sent."""
    with resources.database.write() as session:
        _refuse_disabled(find_webhook(session, caller, webhook_id, lock=True))
        deliveries = WebhookDeliveryRepository(session, caller.project_id)
        if not (is_id(delivery_id) and deliveries.get(webhook_id, delivery_id)):
            raise not_found("delivery")
        if not deliveries.send_again(webhook_id, delivery_id):
            raise ProblemError(409, "conflict", "the delivery is being sent just now")
        found = deliveries.get(webhook_id, delivery_id)
        if found is None:
            raise not_found("delivery")
        return DeliveryBody.of(found)


def _refuse_disabled(row: WebhookEndpoint) -> None:
    if row.disabled_at is not None:
        raise ProblemError(
            409, "conflict", f"the webhook is disabled ({row.disabled_reason}); enable it first"
        )
