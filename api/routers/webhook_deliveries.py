"""What was sent to webhooks, or is to be, and sending it again."""

from typing import Annotated

from fastapi import APIRouter, Query

from api.http.links import Linked
from api.openapi import problems
from api.schemas.base import PageParameters
from api.schemas.webhooks import DeliveryBody, DeliveryPage
from api.services.webhooks.webhook_lists import delivery_page, send_again, send_test
from api.shared.resources import Shared
from api.shared.security import Administrator

router = APIRouter(prefix="/webhooks/{webhook_id}", tags=["webhooks"])


@router.get("/deliveries", responses=problems(404))
def list_webhook_deliveries(
    webhook_id: str,
    caller: Administrator,
    parameters: Annotated[PageParameters, Query()],
    resources: Shared,
    linked: Linked[DeliveryPage],
) -> DeliveryPage:
    """What was sent to a webhook in the last 30 days and what waits, newest first."""
    return linked(delivery_page(resources, caller, webhook_id, parameters))


@router.post("/test", status_code=202, responses=problems(404, 409))
def test_webhook(webhook_id: str, caller: Administrator, resources: Shared) -> DeliveryBody:
    """Send the event `webhook.test`, as any other is sent; its delivery says how that went."""
    return send_test(resources, caller, webhook_id)


@router.post("/deliveries/{delivery_id}/redeliver", status_code=202, responses=problems(404, 409))
def redeliver_webhook(
    webhook_id: str, delivery_id: str, caller: Administrator, resources: Shared
) -> DeliveryBody:
    """Send a delivery again, under the same `webhook-id`, with a whole schedule of retries."""
    return send_again(resources, caller, webhook_id, delivery_id)
