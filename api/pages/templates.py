"""Pages from templates: every value is escaped, and a page loads and runs nothing foreign."""

import secrets
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope as RequestScope

from api.pages import wording
from api.pages.experiment_form import CHOICE_RULES, choice_rules
from api.pages.session import CSRF_FIELD, Visitor
from fedaudit import __version__
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.privacy.unit_key import unit_key_words
from fedaudit.reports.page.style_sheets import SHARED, style_sheet
from fedaudit.reports.sections.part import ANSWER_WORDS
from fedaudit.spec.labels import labelled
from fedaudit.spec.table import TABLE_FORMATS
from models.values import Scope


class Place(NamedTuple):
    """A page in the main navigation."""

    path: str
    name: str
    scope: Scope | None
    """What the key needs; None for every visitor."""
    unless: Scope | None = None
    """The scope with which another place leads here."""
    more: bool = False
    """Whether it is behind *More*."""


PLACES = (
    Place("/", "Experiments", "experiments:read"),
    Place("/reports", "Reports", "reports:read"),
    Place("/sweeps", "Sweeps", "experiments:read"),
    Place("/federations", "Federations", "federations:read"),
    Place("/federations/new", "Bring a table", "federations:write", unless="federations:read"),
    Place("/experiments/new", "New", "experiments:write"),
    Place("/compare", "Compare", "reports:read", more=True),
    Place("/audits", "Audits", "experiments:read", more=True),
    Place("/ledgers", "Ledgers", "experiments:read", more=True),
    Place("/docs", "API", None, more=True),
)
_HOMES = ("/", "/reports", "/federations", "/experiments/new", "/federations/new")


def places(visitor: Visitor) -> list[Place]:
    """What the navigation shows this visitor."""
    return [
        one
        for one in PLACES
        if (one.scope is None or visitor.may(one.scope))
        and not (one.unless is not None and visitor.may(one.unless))
    ]


def home(visitor: Visitor) -> Place | None:
    """The page that the visitor's key is best for; None where it opens none."""
    open_to = {one.path: one for one in places(visitor)}
    return next((open_to[path] for path in _HOMES if path in open_to), None)


_HERE = Path(__file__).parent
ASSETS = _HERE / "assets"

MADE: dict[str, Callable[[], str]] = {
    CHOICE_RULES: choice_rules,
    **{name: partial(style_sheet, name) for name in SHARED},
}

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    # What a page shows depends on the visitor, and must not return after signing out.
    "Cache-Control": "no-store",
    # Not `no-referrer`: browsers then hide the origin of our own forms from us too.
    "Referrer-Policy": "same-origin",
}


def page(
    request: Request, name: str, *, visitor: Visitor | None, status: int = 200, **context: Any
) -> HTMLResponse:
    """A template of `templates/` as an answer; `visitor` is None without a session. Raises
    jinja2.UndefinedError where the template names something that `context` lacks."""
    known = {"here": request.url.path, "csrf_field": CSRF_FIELD, "version": __version__}
    text = _environment().get_template(name).render(**context, visitor=visitor, **known)
    return HTMLResponse(text, status, _HEADERS)


def new_once() -> str:
    """A key for one submission of a form."""
    return secrets.token_urlsafe(18)


def fragment(name: str, **context: Any) -> Markup:
    """A template as a part of another page, its values escaped."""
    return Markup(_environment().get_template(name).render(**context))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({name: getattr(wording, name) for name in wording.FILTERS})
    environment.filters.update(
        observer=observer_words,
        adjacency=adjacency_words,
        unit_key=unit_key_words,
        labelled=labelled,
    )
    environment.globals.update(
        answer_words=ANSWER_WORDS,
        home=home,
        places=places,
        plural=wording.plural,
        new_once=new_once,
        table_formats=TABLE_FORMATS,
    )
    return environment


class Assets(StaticFiles):
    """The files below `assets/`, and those that are made; browsers ask whether one changed."""

    def __init__(self) -> None:
        super().__init__(directory=ASSETS)

    async def get_response(self, path: str, scope: RequestScope) -> Response:
        """Raises HTTPException (404) where there is no such file."""
        if (made := MADE.get(path)) is None:
            response = await super().get_response(path, scope)
        else:
            response = Response(made(), media_type="text/css")
        response.headers["Cache-Control"] = "no-cache"
        return response
