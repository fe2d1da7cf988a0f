"""Pages from templates: every value is escaped, and a page loads and runs nothing foreign."""

import hashlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from api.pages import wording
from api.pages.navigation import home, places
from api.pages.session import CSRF_FIELD, Visitor
from api.pages.spec_form import choice_rules
from fedaudit import __version__
from fedaudit.privacy.accounting.privacy_events import adjacency_words, observer_words
from fedaudit.privacy.unit_key import unit_key_words
from fedaudit.reports.page.style_sheets import SHARED, style_sheet

_HERE = Path(__file__).parent
ASSETS = _HERE / "assets"

MADE: dict[str, Callable[[], str]] = {
    choice_rules.NAME: choice_rules.choice_rules,
    **{name: partial(style_sheet, name) for name in SHARED},
}
"""Assets that are no files, by name."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    # What a page shows depends on who looks, and must not come back after signing out.
    "Cache-Control": "no-store",
    # Not `no-referrer`: browsers then hide the origin of our own forms from us too.
    "Referrer-Policy": "same-origin",
}


def page(
    request: Request, name: str, *, visitor: Visitor | None, status: int = 200, **context: Any
) -> HTMLResponse:
    """A template of `templates/` as an answer; `visitor` is None where nobody has signed in.

    Raises jinja2.UndefinedError where the template names something that `context` lacks.
    """
    text = (
        _environment()
        .get_template(name)
        .render(
            **context,
            visitor=visitor,
            here=request.url.path,
            csrf_field=CSRF_FIELD,
            version=__version__,
        )
    )
    return HTMLResponse(text, status, _HEADERS)


def fragment(name: str, **context: Any) -> Markup:
    """A template as a part of another page, its values escaped."""
    return Markup(_environment().get_template(name).render(**context))


def has_template(name: str) -> bool:
    """Whether there is such a template."""
    return (_HERE / "templates" / name).is_file()


@cache
def asset(name: str) -> str:
    """The address of a file below `assets/`, with a mark that changes with its content."""
    return f"/assets/{name}?v={content_mark(name)}"


@cache
def content_mark(name: str) -> str:
    """The beginning of the SHA-256 of a file below `assets/`, or of one that is made.

    Raises OSError without the file.
    """
    made = MADE.get(name)
    content = (ASSETS / name).read_bytes() if made is None else made().encode()
    return hashlib.sha256(content).hexdigest()[:12]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        figure=wording.figure,
        cost=wording.cost,
        observer=observer_words,
        adjacency=adjacency_words,
        unit_key=unit_key_words,
        room=wording.room,
        small_number=wording.small_number,
        whole=wording.whole,
        words=wording.words,
        with_code=wording.with_code,
        percent=wording.percent,
        file_size=wording.file_size,
        day=wording.day,
        moment=wording.moment,
        iso=wording.iso,
    )
    environment.globals.update(asset=asset, home=home, places=places, plural=wording.plural)
    return environment
