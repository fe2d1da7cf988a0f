"""Signing in at an identity provider or by a trusted proxy, and choosing between projects.

The browser keeps a secret of one sign-in in a cookie, from which state, nonce and verifier follow:
an answer of the provider counts in the browser alone that asked for it, and once.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Annotated
from urllib.parse import urlencode

import structlog
from fastapi import APIRouter, Query, Request, Response
from starlette.responses import HTMLResponse, RedirectResponse

from api.http.origins import refuse_foreign
from api.http.problems import ProblemError, not_found, unavailable
from api.pages.session import COOKIE, ELSEWHERE_SECONDS, HOME, OwnForm, local_path, set_cookie
from api.pages.sign_in import NO_STORE, sign_in_form
from api.pages.templates import page
from api.pages.visits import AnyVisit, PostedForm
from api.shared.identities import SignedIn
from api.shared.resources import Resources, Shared
from infrastructure.identity_provider import (
    IdentityProvider,
    ProviderAwayError,
    TokenRefusedError,
    derived,
)
from models.repositories import WebSessionRepository

router = APIRouter()

log = structlog.get_logger()

_SECONDS = 600
"""For so long a person may take at the provider."""
_MOST_PATH = 2000
_CODE = re.compile(r"[a-z_]{1,40}")
_CHOICE = "/sign-in/project"
_AWAY = "The identity provider does not answer. Try again, or sign in with an API key."


@router.get("/sign-in/provider")
def begin(
    request: Request, resources: Shared, next_path: Annotated[str, Query(alias="next")] = HOME
) -> Response:
    """Lead on to the provider. A link of another site is refused: it would exchange the session."""
    refuse_foreign(request)
    secret, target = token_urlsafe(32), local_path(next_path)
    try:
        address = _provider(resources).authorisation_url(secret, _way_back(request))
    except ProviderAwayError:
        raise unavailable(_AWAY, retry_seconds=5) from None
    _end_earlier(request, resources)
    response = RedirectResponse(address, status_code=303, headers=NO_STORE)
    kept = target.encode() if len(target) <= _MOST_PATH else HOME.encode()
    _keep(response, request, f"{secret}.{urlsafe_b64encode(kept).decode()}")
    return response


@router.get("/sign-in/callback")
def finish(
    *,
    request: Request,
    resources: Shared,
    code: str = "",
    state: str = "",
    error: str = "",
    issuer: Annotated[str, Query(alias="iss")] = "",
) -> Response:
    """What the provider answers leads to a session, or back to the sign-in page with the reason."""
    secret, _, kept = request.cookies.get(_cookie(request), "").partition(".")
    target = _path(kept)
    provider = _provider(resources)
    message, status = None, 401
    if not secret or not compare_digest(state.encode(), derived(secret, "state").encode()):
        message = "This sign-in was not begun in this browser, or took too long. Begin again."
    elif error or issuer not in ("", resources.settings.oidc_issuer):
        reason = error if _CODE.fullmatch(error) else "another issuer"
        message = f"The identity provider did not sign you in: {reason}."
    else:
        try:
            claims = provider.redeem(code, secret, _way_back(request))
            token, project = _begun(resources, resources.identities.of_claims(claims))
            # The session's cookie is not sent on a way that began at another site: a page of ours
            # leads on.
            after = target if project is None else f"{_CHOICE}?{urlencode({'next': target})}"
            response: Response = page(request, "arrived.html", visitor=None, target=after)
            set_cookie(response, request, token, seconds=ELSEWHERE_SECONDS)
        except ProviderAwayError:
            message, status = _AWAY, 503
        except TokenRefusedError as refusal:
            log.warning("sign-in refused", reason=str(refusal)[:300])
            message = "What the identity provider answered is not valid. Begin again."
        except ProblemError as problem:
            message, status = f"You are signed in there, but {problem.detail}.", problem.status
    if message is not None:
        response = sign_in_form(request, resources, target, message=message, status=status)
    _keep(response, request, None)
    return response


@router.post("/sign-in/proxy")
def take_from_proxy(request: Request, fields: OwnForm, resources: Shared) -> Response:
    """Begin a session of the person whom the trusted proxy names."""
    next_path = fields.get("next")
    target = local_path(next_path if isinstance(next_path, str) else None)
    try:
        named = resources.identities.of_proxy(request)
    except TokenRefusedError as refusal:
        raise ProblemError(401, "unauthorised", str(refusal)) from None
    if named is None:
        raise ProblemError(401, "unauthorised", "no trusted proxy names you")
    _end_earlier(request, resources)
    token, project = _begun(resources, named)
    after = target if project is None else f"{_CHOICE}?{urlencode({'next': target})}"
    response = RedirectResponse(after, status_code=303, headers=NO_STORE)
    set_cookie(response, request, token, seconds=ELSEWHERE_SECONDS)
    return response


@router.get(_CHOICE)
def choices(visit: AnyVisit, next_path: Annotated[str, Query(alias="next")] = HOME) -> HTMLResponse:
    """The visitor's projects. Raises ProblemError for one with a key, which has a single one."""
    if not visit.visitor.projects:
        raise not_found("choice of projects")
    return visit.page("projects.html", next_path=local_path(next_path))


@router.post(_CHOICE)
def choose(form: PostedForm) -> Response:
    """Go on in another project."""
    project, identity = form.text("project"), form.caller.identity
    if identity is None or project not in form.visitor.projects:
        raise not_found("project among yours")
    signed_in = SignedIn(identity, form.caller.person, ())
    row = form.resources.identities.row_in(signed_in, project)
    with form.resources.database.write() as session:
        token = WebSessionRepository(session).move(form.request.cookies[COOKIE], row)
    response = RedirectResponse(local_path(form.text("next")), status_code=303, headers=NO_STORE)
    set_cookie(response, form.request, token, seconds=ELSEWHERE_SECONDS)
    return response


def _begun(resources: Resources, signed_in: SignedIn) -> tuple[str, str | None]:
    """The token of a new session; and its project where another could be chosen. Raises
    ProblemError where no project is open."""
    identities = resources.identities
    projects = list(identities.projects(signed_in.groups))
    for project in projects:
        try:
            row = identities.row_in(signed_in, project)
            break
        except ProblemError:
            if project == projects[-1]:
                raise
    with resources.database.write() as session:
        token = WebSessionRepository(session).begin(
            row, seconds=ELSEWHERE_SECONDS, groups=signed_in.groups
        )
    return token, project if len(projects) > 1 else None


def _end_earlier(request: Request, resources: Resources) -> None:
    if earlier := request.cookies.get(COOKIE):
        with resources.database.write() as session:
            WebSessionRepository(session).end(earlier)


def _provider(resources: Resources) -> IdentityProvider:
    provider = resources.identities.provider
    if provider is None or not resources.settings.oidc_client_id:
        raise not_found("way to sign in")
    return provider


def _way_back(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}/sign-in/callback"


def _cookie(request: Request) -> str:
    """Under a name that, over HTTPS, no neighbouring site can set for this one."""
    return "__Host-fedaudit_sign_in" if request.url.scheme == "https" else "fedaudit_sign_in"


def _keep(response: Response, request: Request, value: str | None) -> None:
    """Keep the secret of a sign-in, or end it. It is sent when the provider leads back."""
    response.set_cookie(
        _cookie(request),
        value or "",
        max_age=_SECONDS if value else 0,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax",
    )


def _path(kept: str) -> str:
    try:
        return local_path(urlsafe_b64decode(kept).decode())
    except ValueError:
        return HOME
