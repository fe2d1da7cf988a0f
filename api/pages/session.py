"""The visitor of a page: a person who signed in with an API key or elsewhere, known by a cookie.

The cookie holds a random token; the database has its SHA-256. Every form carries a word derived
from the token, which no other site can know, and is refused without it.
"""

import hashlib
import hmac
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from fastapi import Depends, Request, Response
from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect

from api.http.bodies import media_type
from api.http.origins import refuse_foreign
from api.http.problems import ProblemError, invalid
from api.shared.identities import BY_PROXY
from api.shared.resources import Resources, Shared
from api.shared.security import Caller
from models.person import Identity
from models.repositories import WebSessionRepository
from models.repositories.accounts import FoundSession

COOKIE = "fedaudit_session"
SESSION_SECONDS = 12 * 3600
ELSEWHERE_SECONDS = 8 * 3600
"""How long the stated groups hold of people who signed in elsewhere."""
CSRF_FIELD = "csrf"
HOME = "/"

_CSRF_PURPOSE = b"fedaudit forms"
_MAX_FIELDS = 2500
_FORM = "application/x-www-form-urlencoded"
_CONTROLS = frozenset(map(chr, [*range(0x20), 0x7F]))


@dataclass(frozen=True, kw_only=True)
class Visitor(Caller):
    """A person who signed in. They see and do what their key or their groups allow."""

    project_name: str
    csrf: str
    """Goes into every form that is posted, as the field `csrf`."""


class SignInNeededError(Exception):
    """Ends a request without a session: the browser is sent to the sign-in page."""


def visitor_of(request: Request, resources: Shared) -> Visitor:
    """Raises SignInNeededError where the request has no valid session."""
    if (visitor := visitor_if_any(request, resources)) is None:
        raise SignInNeededError
    return visitor


def visitor_if_any(request: Request, resources: Resources) -> Visitor | None:
    """None where the request has no valid session."""
    if not (token := request.cookies.get(COOKIE)):
        return None
    with resources.database.read() as session:
        found = WebSessionRepository(session).find(token)
    caller = None if found is None else _caller_of(request, resources, found)
    if found is None or caller is None:
        return None
    csrf = hmac.new(token.encode(), _CSRF_PURPOSE, hashlib.sha256).hexdigest()
    visitor = Visitor(**vars(caller), project_name=found.project_name, csrf=csrf)
    # For the page of a later error.
    request.state.visitor = visitor
    return visitor


def _caller_of(request: Request, resources: Resources, found: FoundSession) -> Caller | None:
    """The caller of a session; None where it holds no more. One that began by a proxy holds while
    the proxy names the same person, with the groups that it states now."""
    if found.key.identity is None:
        return Caller.of(found.key)
    identity, groups = Identity(**found.key.identity), found.groups or []
    if identity.issuer == BY_PROXY:
        named = resources.identities.of_proxy(request)
        if named is None or named.identity != identity:
            return None
        groups = named.groups
    elif identity.issuer != resources.settings.oidc_issuer:
        return None
    scopes = resources.identities.projects(groups).get(found.project_name)
    return None if scopes is None else replace(Caller.of(found.key), scopes=scopes)


SignedIn = Annotated[Visitor, Depends(visitor_of)]


async def own_form(request: Request) -> FormData:
    """The fields of a form. Raises ProblemError where another site's page sent it."""
    refuse_foreign(request)
    # Multipart forms name an encoding, and some encodings decode to invalid text.
    if media_type(request) not in ("", _FORM):
        raise ProblemError("unsupported-media-type", f"send the form as {_FORM}")
    try:
        return await request.form(max_fields=_MAX_FIELDS)
    except ClientDisconnect:
        raise invalid("", "the form broke off") from None


OwnForm = Annotated[FormData, Depends(own_form)]
"""A form from any browser, with a session or without."""


def check_word(visitor: Visitor, word: str) -> None:
    """Raises ProblemError for a form without the word of the visitor's session."""
    if not hmac.compare_digest(word.encode(), visitor.csrf.encode()):
        raise ProblemError(
            "forbidden",
            "the form does not belong to your present session; open its page again and repeat it",
        )


def set_cookie(
    response: Response,
    request: Request,
    token: str | None,
    *,
    seconds: int = SESSION_SECONDS,
    name: str = COOKIE,
    same_site: Literal["lax", "strict"] = "strict",
) -> None:
    """Give the browser its token, out of reach of scripts and of other sites' requests; None
    deletes it."""
    response.set_cookie(
        name,
        token or "",
        max_age=seconds if token else 0,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite=same_site,
    )


def local_path(target: str | None) -> str:
    """The path with its query if it leads to this service, else the home page. Browsers take
    `//host`, and a backslash for a slash, as the way to another host."""
    if not target or not target.startswith("/") or target.startswith("//"):
        return HOME
    if "\\" in target or not _CONTROLS.isdisjoint(target):
        return HOME
    return target
