"""Webhooks: their pages and secrets, deliveries, and sending one again."""

from base64 import b64encode
from functools import partial
from secrets import token_bytes

from sqlalchemy.orm import Session

from api.http.problems import conflict, unavailable
from api.schemas.base import PageParameters
from api.schemas.people import DeliveryBody, DeliveryPage, WebhookBody, WebhookPage
from api.services.lookups import find_webhook, found_by, list_page
from api.shared.security import Call, Caller
from infrastructure.secrets_key import SecretBox, SecretsKeyError
from infrastructure.settings import Settings
from models.repositories import (
    AnnouncementRepository,
    WebhookDeliveryRepository,
    WebhookEndpointRepository,
)


def new_webhook_secret(settings: Settings) -> tuple[str, str]:
    """A new secret, and the same encrypted. Raises ProblemError where the service has no key."""
    try:
        box = SecretBox(settings)
    except SecretsKeyError as error:
        raise unavailable(str(error)) from None
    secret = f"whsec_{b64encode(token_bytes(32)).decode()}"
    return secret, box.encrypt(secret)


def webhook_page(call: Call, parameters: PageParameters) -> WebhookPage:
    """The project's webhooks, oldest first. Raises ProblemError for another list's cursor."""
    with call.reading() as session:
        rows = WebhookEndpointRepository(session, call.project_id).list
        bodies = partial(map, WebhookBody.of)
        return list_page(WebhookPage, "webhooks", parameters, rows, bodies)


def get_webhook_body(call: Call, webhook_id: str) -> WebhookBody:
    """One of them. Raises ProblemError where the project has no such webhook."""
    with call.reading() as session:
        return WebhookBody.of(find_webhook(session, call.caller, webhook_id))


def delivery_page(call: Call, webhook_id: str, parameters: PageParameters) -> DeliveryPage:
    """A webhook's deliveries, newest first. Raises ProblemError as the others do."""
    with call.reading() as session:
        find_webhook(session, call.caller, webhook_id)
        rows = partial(WebhookDeliveryRepository(session, call.project_id).list, webhook_id)
        route, bodies = f"webhook-deliveries:{webhook_id}", partial(map, DeliveryBody.of)
        return list_page(DeliveryPage, route, parameters, rows, bodies)


def send_test(call: Call, webhook_id: str) -> DeliveryBody:
    """Let `webhook.test` be sent. Raises ProblemError where the webhook is disabled, or missing."""
    with call.writing() as session:
        _lock_enabled(session, call.caller, webhook_id)
        announcements = AnnouncementRepository(session, call.project_id)
        return DeliveryBody.of(announcements.test(webhook_id))


def send_again(call: Call, webhook_id: str, delivery_id: str) -> DeliveryBody:
    """Let a delivery be sent again. Raises ProblemError as `send_test` does, and while it is being
    sent."""
    with call.writing() as session:
        _lock_enabled(session, call.caller, webhook_id)
        deliveries = WebhookDeliveryRepository(session, call.project_id)
        get = partial(deliveries.get, webhook_id)
        found_by(get, delivery_id, "delivery")
        if not deliveries.send_again(webhook_id, delivery_id):
            raise conflict("the delivery is being sent just now")
        return DeliveryBody.of(found_by(get, delivery_id, "delivery"))


def _lock_enabled(session: Session, caller: Caller, webhook_id: str) -> None:
    row = find_webhook(session, caller, webhook_id, lock=True)
    if row.disabled_at is not None:
        raise conflict(f"the webhook is disabled ({row.disabled_reason}); enable it first")
