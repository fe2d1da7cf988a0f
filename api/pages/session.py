"""Who looks at a page: somebody who signed in with an API key, by a cookie.

The cookie holds a random token; the database has its SHA-256. Every form carries a word that is
derived from the token, which no other site can know, and is refused without it.
"""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response
from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect

from api.http.bodies import media_type
from api.http.problems import ProblemError, invalid
from api.pages.origins import came_from, is_foreign
from api.shared.resources import Shared
from api.shared.security import Caller
from models.repositories import WebSessionRepository
from models.vocabulary import Scope

COOKIE = "fedaudit_session"
SESSION_SECONDS = 12 * 3600
CSRF_FIELD = "csrf"

_CSRF_PURPOSE = b"fedaudit forms"
_MAX_FIELDS = 2500
_FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Visitor:
    """Somebody who signed in. They see and do what their key allows."""

    caller: Caller
    project_name: str
    csrf: str
    """Goes into every form that is posted, as the field `csrf`."""

    def may(self, scope: Scope) -> bool:
        """Whether the key has the scope; none implies another."""
        return self.caller.may(scope)


@dataclass(frozen=True)
class CheckedForm:
    """A form that this visitor sent from one of our own pages."""

    visitor: Visitor
    fields: FormData

    def text(self, name: str) -> str:
        """The field's text without blanks around it; empty where it is missing or a file."""
        value = self.fields.get(name)
        return value.strip() if isinstance(value, str) else ""


class SignInNeededError(Exception):
    """Ends a request of somebody without a session by sending them to the sign-in page."""

    def __init__(self, next_path: str) -> None:
        super().__init__("no session")
        self.next_path = next_path


def visitor_of(request: Request, resources: Shared) -> Visitor:
    """Raises SignInNeededError where the request has no session in force."""
    token = request.cookies.get(COOKIE)
    found = None
    if token:
        with resources.database.read() as session:
            found = WebSessionRepository(session).find(token)
    if token is None or found is None:
        raise SignInNeededError(_way_back(request))
    visitor = Visitor(Caller.of(found.key), found.project_name, csrf_of(token))
    # For the page of an error that comes later.
    request.state.visitor = visitor
    return visitor


SignedIn = Annotated[Visitor, Depends(visitor_of)]
"""Anybody with a session, whatever the key's scopes."""


async def own_form(request: Request) -> FormData:
    """The fields of a form. Raises ProblemError where another site's page sent it."""
    refuse_foreign(request)
    # Multipart forms name their own encoding, and some of those make text that is no text.
    if media_type(request) not in ("", _FORM):
        raise ProblemError(415, "unsupported-media-type", f"send the form as {_FORM}")
    try:
        return await request.form(max_fields=_MAX_FIELDS)
    except ClientDisconnect:
        raise invalid("", "the form broke off") from None


def refuse_foreign(request: Request) -> None:
    """Raises ProblemError where another site's page sent the form."""
    if is_foreign(request):
        raise ProblemError(403, "forbidden", "the form was sent from another site")


OwnForm = Annotated[FormData, Depends(own_form)]
"""A form from anybody, with a session or without."""


async def checked_form(visitor: SignedIn, fields: OwnForm) -> CheckedForm:
    """Raises ProblemError for a form that another site may have made."""
    word = fields.get(CSRF_FIELD)
    check_word(visitor, word if isinstance(word, str) else "")
    return CheckedForm(visitor, fields)


def check_word(visitor: Visitor, word: str) -> None:
    """Raises ProblemError for a form without the word of the visitor's session."""
    if not hmac.compare_digest(word.encode(), visitor.csrf.encode()):
        raise ProblemError(
            403,
            "forbidden",
            "the form does not belong to your present session; open its page again and repeat it",
        )


PostedForm = Annotated[CheckedForm, Depends(checked_form)]
"""A form from anybody with a session, whatever the key's scopes."""


def visiting(scope: Scope) -> Callable[[Visitor], Visitor]:
    """A dependency that lets visitors pass whose key has the scope."""

    def check(visitor: SignedIn) -> Visitor:
        require(visitor, scope)
        return visitor

    return check


def posting(scope: Scope) -> Callable[[CheckedForm], CheckedForm]:
    """A dependency that gives a checked form of a visitor whose key has the scope."""

    def check(form: PostedForm) -> CheckedForm:
        require(form.visitor, scope)
        return form

    return check


ExperimentsVisitor = Annotated[Visitor, Depends(visiting("experiments:read"))]
ReportsVisitor = Annotated[Visitor, Depends(visiting("reports:read"))]
LedgerVisitor = Annotated[Visitor, Depends(visiting("ledger:read"))]
FederationsVisitor = Annotated[Visitor, Depends(visiting("federations:read"))]
AdministratorVisitor = Annotated[Visitor, Depends(visiting("admin"))]
ExperimentsAuthor = Annotated[Visitor, Depends(visiting("experiments:write"))]
FederationsAuthor = Annotated[Visitor, Depends(visiting("federations:write"))]
ExperimentsForm = Annotated[CheckedForm, Depends(posting("experiments:write"))]
SignOffForm = Annotated[CheckedForm, Depends(posting("reports:sign"))]
FederationsForm = Annotated[CheckedForm, Depends(posting("federations:write"))]
AdministratorForm = Annotated[CheckedForm, Depends(posting("admin"))]


def csrf_of(token: str) -> str:
    """The word that the forms of a session carry."""
    return hmac.new(token.encode(), _CSRF_PURPOSE, hashlib.sha256).hexdigest()


def set_cookie(response: Response, request: Request, token: str) -> None:
    """Give the browser its token, out of reach of scripts and of other sites' requests."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=SESSION_SECONDS,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def clear_cookie(response: Response, request: Request) -> None:
    """Let the browser forget its token."""
    response.delete_cookie(
        COOKIE, path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict"
    )


def require(visitor: Visitor, scope: Scope) -> None:
    """Raises ProblemError where the visitor's key lacks the scope."""
    if not visitor.may(scope):
        raise ProblemError(
            403,
            "forbidden",
            f"the API key that you signed in with lacks the scope {scope}; sign in with one that "
            "has it",
            scope=scope,
        )


def _way_back(request: Request) -> str:
    if request.method != "GET":
        return came_from(request)
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path
