"""Webhooks: where events are sent, what was sent, and a test."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse

from api.pages.visits import AdministratorForm, AdministratorVisit, Cursor
from api.schemas.base import PageParameters
from api.services.webhooks import (
    delivery_page,
    get_webhook_body,
    send_again,
    send_test,
    webhook_page,
)

router = APIRouter(prefix="/webhooks")

_ALL = PageParameters(limit=100)
_ON_A_PAGE = 25


@router.get("")
def webhooks_list(visit: AdministratorVisit) -> HTMLResponse:
    """The project's webhooks."""
    found = webhook_page(visit.resources, visit.caller, _ALL)
    return visit.page("webhooks.html", webhooks=found.items)


@router.get("/{webhook_id}")
def webhook_shown(
    webhook_id: str,
    visit: AdministratorVisit,
    cursor: Cursor = None,
    sent: Annotated[bool, Query()] = False,
) -> HTMLResponse:
    """One webhook and its deliveries."""
    asked = PageParameters(limit=_ON_A_PAGE, cursor=cursor)
    webhook = get_webhook_body(visit.resources, visit.caller, webhook_id)
    deliveries = delivery_page(visit.resources, visit.caller, webhook_id, asked)
    return visit.page("webhook.html", webhook=webhook, deliveries=deliveries, sent=sent)


@router.post("/{webhook_id}/test")
def send_webhook_test(webhook_id: str, form: AdministratorForm) -> RedirectResponse:
    """Send `webhook.test`."""
    send_test(form.resources, form.caller, webhook_id)
    return form.to(f"/webhooks/{webhook_id}?sent=true")


@router.post("/{webhook_id}/deliveries/{delivery_id}/redeliver")
def send_webhook_again(
    webhook_id: str, delivery_id: str, form: AdministratorForm
) -> RedirectResponse:
    """Send a delivery again."""
    send_again(form.resources, form.caller, webhook_id, delivery_id)
    return form.to(f"/webhooks/{webhook_id}?sent=true")
