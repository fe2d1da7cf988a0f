"""Signing in with an API key, and out again."""

import math
from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from api.pages.attempts import FailedAttempts
from api.pages.origins import HOME, local_path
from api.pages.session import (
    COOKIE,
    SESSION_SECONDS,
    OwnForm,
    PostedForm,
    SignInNeededError,
    Visitor,
    clear_cookie,
    set_cookie,
    visitor_of,
)
from api.pages.templates import page
from api.shared.resources import Resources, Shared
from models.repositories import ApiKeyRepository, WebSessionRepository
from models.repositories.accounts import hash_of_key

router = APIRouter()

log = structlog.get_logger()


@router.get("/sign-in")
def sign_in_page(
    request: Request, resources: Shared, next_path: Annotated[str, Query(alias="next")] = HOME
) -> HTMLResponse:
    """The form, which leads on to `next` where that is a path of this service."""
    try:
        visitor = visitor_of(request, resources)
    except SignInNeededError:
        visitor = None
    return _form(request, local_path(next_path), visitor=visitor)


@router.post("/sign-in")
def sign_in(request: Request, fields: OwnForm, resources: Shared) -> Response:
    """Begin a session; one that the browser had ends.

    Another site's form is refused: it could sign people in with a key of its own, and read there
    what they do.
    """
    key, next_path = fields.get("key"), fields.get("next")
    target = local_path(next_path if isinstance(next_path, str) else None)
    given = key.strip() if isinstance(key, str) else ""
    token = _begin(resources, given, request.cookies.get(COOKIE))
    if token is None:
        return _wrong_key(request, target)
    response = RedirectResponse(target, status_code=303, headers={"Cache-Control": "no-store"})
    set_cookie(response, request, token)
    return response


@router.post("/sign-out")
def sign_out(request: Request, form: PostedForm, resources: Shared) -> Response:
    """End the session, here and in the database."""
    with resources.database.write() as session:
        WebSessionRepository(session).end(request.cookies[COOKIE])
    response = RedirectResponse("/sign-in", status_code=303, headers={"Cache-Control": "no-store"})
    clear_cookie(response, request)
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


def _wrong_key(request: Request, target: str) -> HTMLResponse:
    """After many, an address has to wait, but a right key still lets it in: behind a proxy many
    people share one address, and none of them can lock the others out."""
    attempts: FailedAttempts = request.app.state.failed_sign_ins
    address = request.client.host if request.client else ""
    wait = attempts.wait_seconds(address)
    if wait > 0:
        return _refused(request, target, wait)
    attempts.add(address)
    log.warning("sign-in refused", address=address)
    message = "This key is unknown or revoked. Check that you copied all of it."
    return _form(request, target, message=message, status=401)


def _refused(request: Request, target: str, wait: float) -> HTMLResponse:
    seconds = math.ceil(wait)
    message = f"Too many keys from your address were wrong. Try again in {seconds} seconds."
    response = _form(request, target, message=message, status=429)
    response.headers["Retry-After"] = str(seconds)
    return response


def _form(
    request: Request,
    target: str,
    *,
    visitor: Visitor | None = None,
    message: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    return page(
        request, "sign_in.html", visitor=visitor, status=status, next_path=target, message=message
    )
