"""Signing in, with an API key, at an identity provider or by a trusted proxy, and out again.

The browser keeps a secret of one sign-in at a provider in a cookie, from which state, nonce and
verifier follow: an answer of the provider counts in the browser alone that asked for it, and once.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Annotated
from urllib.parse import urlsplit

import structlog
from fastapi import APIRouter, Query, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from api.http.origins import refuse_foreign
from api.http.problems import ProblemError, not_found
from api.pages.session import (
    COOKIE,
    ELSEWHERE_SECONDS,
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
from api.shared.identities import SignedIn, derived, refused
from api.shared.resources import Resources, Shared
from models.repositories import ApiKeyRepository, WebSessionRepository
from models.repositories.accounts import hash_of_key

router = APIRouter()

log = structlog.get_logger()

_NO_STORE = {"Cache-Control": "no-store"}
_SECONDS = 600
"""How long a person may take at an identity provider."""


@router.get("/sign-in")
def sign_in_page(
    request: Request, resources: Shared, next_path: Annotated[str, Query(alias="next")] = HOME
) -> HTMLResponse:
    """The form, which leads on to `next` where that is a path of this service."""
    visitor = visitor_if_any(request, resources)
    return _form(request, resources, local_path(next_path), visitor=visitor)


@router.post("/sign-in")
def sign_in(request: Request, fields: OwnForm, resources: Shared) -> Response:
    """Begin a session; the browser's earlier session ends. Another site's form is refused: it could
    sign people in with its key, and read there what they do."""
    key, next_path = fields.get("key"), fields.get("next")
    target = local_path(next_path if isinstance(next_path, str) else None)
    secret_hash = hash_of_key(key.strip() if isinstance(key, str) else "")
    with resources.database.read() as session:
        found = ApiKeyRepository(session).find(secret_hash)
    if found is None:
        # Keys hold 256 random bits: nothing is gained by counting guesses.
        address = request.client.host if request.client else ""
        log.warning("sign-in refused", address=address)
        message = "This key is unknown or revoked. Check that you copied all of it."
        return _form(request, resources, target, message=message, status=401)
    with resources.database.write() as session:
        sessions = WebSessionRepository(session)
        if earlier := request.cookies.get(COOKIE):
            sessions.end(earlier)
        token = sessions.begin(found, seconds=SESSION_SECONDS, secret_hash=secret_hash)
    response = RedirectResponse(target, status_code=303, headers=_NO_STORE)
    set_cookie(response, request, token)
    return response


@router.post("/sign-out")
def sign_out(form: PostedForm) -> Response:
    """End the session, here and in the database."""
    with form.resources.database.write() as session:
        WebSessionRepository(session).end(form.request.cookies[COOKIE])
    response = RedirectResponse("/sign-in", status_code=303, headers=_NO_STORE)
    set_cookie(response, form.request, None)
    return response


def _form(
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


@router.get("/sign-in/elsewhere")
def begin(
    request: Request,
    resources: Shared,
    next_path: Annotated[str, Query(alias="next", max_length=2000)] = HOME,
    project: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Begin a session of the person whom a trusted proxy names, or lead on to the provider. A link
    of another site is refused: it would exchange the session."""
    refuse_foreign(request)
    identities, target = resources.identities, local_path(next_path)
    if earlier := request.cookies.get(COOKIE):
        with resources.database.write() as session:
            WebSessionRepository(session).end(earlier)
    if (named := identities.of_proxy(request)) is not None:
        return _signed_in(request, resources, named, target=target, project=project)
    if identities.provider is None:
        raise not_found("other way to sign in")
    secret = token_urlsafe(32)
    address = identities.provider.authorisation_url(secret, _way_back(request))
    response = RedirectResponse(address, status_code=303, headers=_NO_STORE)
    kept = urlsafe_b64encode(json.dumps([target, project]).encode()).decode()
    _keep(response, request, f"{secret}.{kept}")
    return response


@router.get("/sign-in/callback")
def finish(
    *, request: Request, resources: Shared, code: str = "", state: str = "", error: str = ""
) -> Response:
    """What the provider answers leads to a session, or back to the sign-in page with the reason."""
    secret, _, kept = request.cookies.get(_cookie(request), "").partition(".")
    identities = resources.identities
    try:
        if not secret or not compare_digest(state.encode(), derived(secret, "state").encode()):
            raise refused("it was not begun in this browser, or took too long")
        if identities.provider is None or error:
            raise refused(f"the identity provider answered {error[:80]}")
        target, project = json.loads(urlsafe_b64decode(kept))
        named = identities.of_claims(identities.provider.redeem(code, secret, _way_back(request)))
        response = _signed_in(request, resources, named, target=local_path(target), project=project)
    except ProblemError as refusal:
        log.warning("sign-in refused", reason=refusal.detail)
        message = f"This sign-in is refused: {refusal.detail}."
        response = _form(request, resources, HOME, message=message, status=refusal.status)
    _keep(response, request, None)
    return response


def _signed_in(
    request: Request, resources: Resources, named: SignedIn, *, target: str, project: str
) -> Response:
    """A session in the project that was chosen, or the only one; else the choice. Raises
    ProblemError where no project is open."""
    projects = list(resources.identities.projects(named.groups))
    if not projects:
        groups = ", ".join(named.groups[:20]) or "none was stated"
        raise ProblemError("forbidden", f"none of your groups opens a project ({groups})")
    if project not in projects and len(projects) > 1:
        return page(request, "projects.html", visitor=None, projects=projects, next_path=target)
    row = resources.identities.row_in(named, project if project in projects else projects[0])
    with resources.database.write() as session:
        sessions = WebSessionRepository(session)
        token = sessions.begin(row, seconds=ELSEWHERE_SECONDS, groups=named.groups)
    # The session's cookie is not sent on a way that began at another site: a page of ours leads on.
    response = page(request, "arrived.html", visitor=None, target=target)
    set_cookie(response, request, token, seconds=ELSEWHERE_SECONDS)
    return response


def _way_back(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}/sign-in/callback"


def _cookie(request: Request) -> str:
    """Under a name that, over HTTPS, no neighbouring site can set for this one."""
    return "__Host-fedaudit_sign_in" if request.url.scheme == "https" else "fedaudit_sign_in"


def _keep(response: Response, request: Request, value: str | None) -> None:
    """Keep the secret of a sign-in, or end it. It is sent when the provider leads back."""
    set_cookie(response, request, value, seconds=_SECONDS, name=_cookie(request), same_site="lax")
