"""Signing in with an API key, and out again; the page has the other ways as well."""

from typing import Annotated
from urllib.parse import urlsplit

import structlog
from fastapi import APIRouter, Query, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from api.pages.session import (
    COOKIE,
    HOME,
    SESSION_SECONDS,
    OwnForm,
    Visitor,
    local_path,
    set_cookie,
    visitor_if_any,
)
from api.pages.templates import page
from api.pages.visits import PostedForm
from api.shared.resources import Resources, Shared
from models.repositories import ApiKeyRepository, WebSessionRepository
from models.repositories.accounts import hash_of_key

router = APIRouter()

log = structlog.get_logger()

NO_STORE = {"Cache-Control": "no-store"}


@router.get("/sign-in")
def sign_in_page(
    request: Request, resources: Shared, next_path: Annotated[str, Query(alias="next")] = HOME
) -> HTMLResponse:
    """The form, which leads on to `next` where that is a path of this service."""
    visitor = visitor_if_any(request, resources)
    return sign_in_form(request, resources, local_path(next_path), visitor=visitor)


@router.post("/sign-in")
def sign_in(request: Request, fields: OwnForm, resources: Shared) -> Response:
    """Begin a session; the browser's earlier session ends. Another site's form is refused: it could
    sign people in with its key, and read there what they do."""
    key, next_path = fields.get("key"), fields.get("next")
    target = local_path(next_path if isinstance(next_path, str) else None)
    given = key.strip() if isinstance(key, str) else ""
    token = _begin(resources, given, request.cookies.get(COOKIE))
    if token is None:
        # Keys hold 256 random bits: nothing is gained by counting guesses.
        address = request.client.host if request.client else ""
        log.warning("sign-in refused", address=address)
        message = "This key is unknown or revoked. Check that you copied all of it."
        return sign_in_form(request, resources, target, message=message, status=401)
    response = RedirectResponse(target, status_code=303, headers=NO_STORE)
    set_cookie(response, request, token)
    return response


@router.post("/sign-out")
def sign_out(form: PostedForm) -> Response:
    """End the session, here and in the database."""
    with form.resources.database.write() as session:
        WebSessionRepository(session).end(form.request.cookies[COOKIE])
    response = RedirectResponse("/sign-in", status_code=303, headers=NO_STORE)
    set_cookie(response, form.request, None)
    return response


def _begin(resources: Resources, plain: str, earlier: str | None) -> str | None:
    with resources.database.read() as session:
        key = ApiKeyRepository(session).find(plain)
    if key is None:
        return None
    with resources.database.write() as session:
        sessions = WebSessionRepository(session)
        if earlier:
            sessions.end(earlier)
        return sessions.begin(key, seconds=SESSION_SECONDS, secret_hash=hash_of_key(plain))


def sign_in_form(
    request: Request,
    resources: Resources,
    target: str,
    *,
    visitor: Visitor | None = None,
    message: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    """The page, with what it has to say and every way in."""
    named = resources.identities.of_proxy(request)
    elsewhere = urlsplit(resources.settings.oidc_issuer).hostname
    if named is not None:
        elsewhere = named.person.name if named.person else named.identity.subject
    provider = None if named else resources.identities.provider
    shown = {
        "next_path": target,
        "message": message,
        "elsewhere": elsewhere,
        "named": named,
        "sign_out_url": provider.sign_out_url() if provider else None,
    }
    return page(request, "sign_in.html", visitor=visitor, status=status, **shown)
