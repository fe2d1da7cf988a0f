"""Webhooks: where events are sent, what was sent, and a test."""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from api.pages.session import AdministratorForm, AdministratorVisitor
from api.pages.templates import page
from api.schemas.base import PageParameters
from api.services.webhooks import (
    delivery_page,
    get_webhook_body,
    send_again,
    send_test,
    webhook_page,
)
from api.shared.resources import Shared

router = APIRouter()

_ALL = PageParameters(limit=100)
_ON_A_PAGE = 25


@router.get("/webhooks")
def webhooks_list(
    request: Request, visitor: AdministratorVisitor, resources: Shared
) -> HTMLResponse:
    """The project's webhooks."""
    found = webhook_page(resources, visitor.caller, _ALL)
    return page(request, "webhooks.html", visitor=visitor, webhooks=found.items)


@router.get("/webhooks/{webhook_id}")
def webhook_shown(
    *,
    webhook_id: str,
    request: Request,
    visitor: AdministratorVisitor,
    resources: Shared,
    cursor: Annotated[str | None, Query(max_length=4000)] = None,
    sent: Annotated[bool, Query()] = False,
) -> HTMLResponse:
    """One webhook and its deliveries."""
    asked = PageParameters(limit=_ON_A_PAGE, cursor=cursor)
    return page(
        request,
        "webhook.html",
        visitor=visitor,
        webhook=get_webhook_body(resources, visitor.caller, webhook_id),
        deliveries=delivery_page(resources, visitor.caller, webhook_id, asked),
        sent=sent,
    )


@router.post("/webhooks/{webhook_id}/test")
def send_webhook_test(webhook_id: str, form: AdministratorForm, resources: Shared) -> Response:
    """Let `webhook.test` be sent."""
    send_test(resources, form.visitor.caller, webhook_id)
    return RedirectResponse(f"/webhooks/{webhook_id}?sent=true", status_code=303)


@router.post("/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver")
def send_webhook_again(
    webhook_id: str, delivery_id: str, form: AdministratorForm, resources: Shared
) -> Response:
    """Let a delivery be sent again."""
    send_again(resources, form.visitor.caller, webhook_id, delivery_id)
    return RedirectResponse(f"/webhooks/{webhook_id}?sent=true", status_code=303)
