"""Webhooks of the key's project, and their deliveries."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from api.http.bodies import JsonBody, validated
from api.http.problems import conflict, invalid, not_found
from api.openapi import located, problems, request_body
from api.schemas.base import PageParameters
from api.schemas.people import (
    DeliveryBody,
    DeliveryPage,
    NewSecretBody,
    RotationParameters,
    WebhookBody,
    WebhookChange,
    WebhookPage,
    WebhookRequest,
)
from api.services.lookups import find_webhook, note
from api.services.webhooks import (
    delivery_page,
    get_webhook_body,
    new_webhook_secret,
    send_again,
    send_test,
    webhook_page,
)
from api.shared.resources import Resources, Shared
from api.shared.security import Administrator, Caller
from infrastructure.outbound import AddressRefusedError, check_url
from models.identifiers import is_id
from models.repositories import WebhookEndpointRepository
from models.tables.operations import WebhookEndpoint

router = APIRouter(prefix="/webhooks", tags=["webhooks"])

_MOST = 20
"""Of one project."""


@router.get("", responses=problems())
def list_webhooks(
    caller: Administrator, parameters: Annotated[PageParameters, Query()], resources: Shared
) -> WebhookPage:
    """The project's webhooks, oldest first, and who registered them."""
    return webhook_page(resources, caller, parameters)


@router.post(
    "",
    status_code=201,
    responses=problems(409, 415) | located(201, "Registered.", "webhook"),
    openapi_extra=request_body(WebhookRequest),
)
def create_webhook(
    caller: Administrator, value: JsonBody, resources: Shared, response: Response
) -> NewSecretBody:
    """Register an address; the secret that its deliveries are signed with is shown this once."""
    asked = validated(WebhookRequest, value)
    _check_url(resources, asked.url)
    secret, stored = new_webhook_secret(resources.settings)
    with resources.database.write() as session:
        endpoints = WebhookEndpointRepository(session, caller.project_id)
        if endpoints.count() >= _MOST:
            raise conflict(f"the project has {_MOST} webhooks already; delete one first")
        row = endpoints.add(
            url=asked.url,
            events=list(dict.fromkeys(asked.events)),
            description=asked.description,
            secret=stored,
            by=caller.actor,
        )
        note(session, caller, "webhook.created", row.id, events=list(row.events))
    response.headers["Location"] = f"/v1/webhooks/{row.id}"
    return _with_secret(row, secret)


@router.get("/{webhook_id}", responses=problems(404))
def get_webhook(webhook_id: str, caller: Administrator, resources: Shared) -> WebhookBody:
    """One webhook."""
    return get_webhook_body(resources, caller, webhook_id)


@router.patch(
    "/{webhook_id}", responses=problems(404, 415), openapi_extra=request_body(WebhookChange)
)
def change_webhook(
    webhook_id: str, caller: Administrator, value: JsonBody, resources: Shared
) -> WebhookBody:
    """Change an address, its events, or whether it is enabled; its secret stays.

    Waiting deliveries are sent to the new address. A disabled webhook gets nothing new.
    """
    asked = validated(WebhookChange, value)
    if asked.url is not None:
        _check_url(resources, asked.url)
    with resources.database.write() as session:
        row = find_webhook(session, caller, webhook_id, lock=True)
        changes = asked.model_dump(include={"url", "events", "description"}, exclude_none=True)
        changes |= _enabling(row, asked.enabled, caller)
        WebhookEndpointRepository(session, caller.project_id).change(
            row, by=caller.actor, **changes
        )
        body = WebhookBody.of(row)
        note(session, caller, "webhook.changed", row.id, changed=sorted(changes))
    return body


@router.delete("/{webhook_id}", status_code=204, responses=problems(404))
def delete_webhook(webhook_id: str, caller: Administrator, resources: Shared) -> Response:
    """Delete a webhook with its deliveries; waiting ones are never sent."""
    with resources.database.write() as session:
        endpoints = WebhookEndpointRepository(session, caller.project_id)
        if not (is_id(webhook_id) and endpoints.delete(webhook_id)):
            raise not_found("webhook")
        note(session, caller, "webhook.deleted", webhook_id)
    return Response(status_code=204)


@router.post("/{webhook_id}/rotate-secret", responses=problems(404))
def rotate_webhook_secret(
    webhook_id: str,
    caller: Administrator,
    parameters: Annotated[RotationParameters, Query()],
    resources: Shared,
) -> NewSecretBody:
    """Replace the secret; the new one is shown this once.

    Deliveries are signed with both until `previous_secret_until`. A secret that was still valid
    beside the replaced one ends at once.
    """
    overlap = timedelta(seconds=parameters.overlap_seconds)
    with resources.database.write() as session:
        row = find_webhook(session, caller, webhook_id, lock=True)
        secret, stored = new_webhook_secret(resources.settings)
        WebhookEndpointRepository(session, caller.project_id).change(
            row,
            by=caller.actor,
            secret=stored,
            previous_secret=row.secret if overlap else None,
            previous_until=datetime.now(UTC) + overlap if overlap else None,
        )
        note(session, caller, "webhook.secret-rotated", row.id)
    return _with_secret(row, secret)


def _check_url(resources: Resources, url: str) -> None:
    """Raises ProblemError for an address that deliveries are not sent to."""
    try:
        check_url(url, allow_private=resources.settings.webhooks_allow_private)
    except AddressRefusedError as error:
        raise invalid("/url", str(error)) from None


def _enabling(row: WebhookEndpoint, enabled: bool | None, caller: Caller) -> dict[str, Any]:
    if enabled is None or enabled == (row.disabled_at is None):
        return {}
    if enabled:
        # Or the next failure would disable it again at once.
        return {"disabled_at": None, "disabled_reason": None, "failing_since": None}
    who = caller.actor.person or caller.actor.key_name
    return {"disabled_at": datetime.now(UTC), "disabled_reason": f"disabled by {who}"}


def _with_secret(row: WebhookEndpoint, secret: str) -> NewSecretBody:
    return NewSecretBody(**WebhookBody.of(row).model_dump(), secret=secret)


@router.get("/{webhook_id}/deliveries", responses=problems(404))
def list_webhook_deliveries(
    webhook_id: str,
    caller: Administrator,
    parameters: Annotated[PageParameters, Query()],
    resources: Shared,
) -> DeliveryPage:
    """The deliveries to a webhook of the last 30 days, and those that wait, newest first."""
    return delivery_page(resources, caller, webhook_id, parameters)


@router.post("/{webhook_id}/test", status_code=202, responses=problems(404, 409))
def test_webhook(webhook_id: str, caller: Administrator, resources: Shared) -> DeliveryBody:
    """Send the event `webhook.test`, as any other is sent; its delivery says how that went."""
    return send_test(resources, caller, webhook_id)


@router.post(
    "/{webhook_id}/deliveries/{delivery_id}/redeliver",
    status_code=202,
    responses=problems(404, 409),
)
def redeliver_webhook(
    webhook_id: str, delivery_id: str, caller: Administrator, resources: Shared
) -> DeliveryBody:
    """Send a delivery again, under the same `webhook-id`, with a whole schedule of retries."""
    return send_again(resources, caller, webhook_id, delivery_id)
