"""What the routes of pages receive, a request of a visitor, and the answers that they give."""

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Depends, Request
from starlette.background import BackgroundTask
from starlette.datastructures import FormData
from starlette.responses import HTMLResponse, RedirectResponse, Response

from api.http.answers import as_file
from api.http.problems import ProblemError, not_found
from api.pages.session import CSRF_FIELD, OwnForm, SignedIn, Visitor, check_word
from api.pages.templates import page
from api.services.dispatch import dispatch
from api.shared.resources import Shared
from api.shared.security import SCHEMA_SECONDS, Call, require
from fedaudit.reports.charts.drawing import Chart
from fedaudit.reports.page.picture_files import PictureForm, PictureUnavailableError, picture_file
from models.repositories import FederationRepository
from models.tables.experiments import Unit
from models.values import Scope

ONCE = "once"
"""The field of a form with a key, so that a double click submits once."""
_ONCE = re.compile(r"[\w-]{16,64}", re.ASCII)
_NEWEST_FEDERATIONS = 200


@dataclass(frozen=True)
class Visit(Call):
    """A request by a visitor; `fields` are those of a posted form, from one of our own pages."""

    caller: Visitor
    request: Request
    fields: FormData = field(default_factory=FormData)

    def may(self, scope: Scope) -> bool:
        """Whether the visitor's key has the scope."""
        return self.caller.may(scope)

    def text(self, name: str) -> str:
        """The field's text without blanks around it; empty where it is missing or a file."""
        value = self.fields.get(name)
        return value.strip() if isinstance(value, str) else ""

    def texts(self, *names: str) -> dict[str, str]:
        """The texts of fields."""
        return {name: self.text(name) for name in names}

    @property
    def once(self) -> str | None:
        """The key that the form was sent with, if it is one."""
        return self.text(ONCE) if _ONCE.fullmatch(self.text(ONCE)) else None

    def asked(self) -> dict[str, str]:
        """The query's parameters that have a value: a form also sends empty fields."""
        return {name: value for name, value in self.request.query_params.items() if value}

    def federation_names(self) -> dict[str, str]:
        """The names of the newest federations by their ids; none without `federations:read`."""
        if not self.may("federations:read"):
            return {}
        with self.reading() as session:
            rows = FederationRepository(session, self.project_id).list(limit=_NEWEST_FEDERATIONS)
        return {row.id: row.name for row in rows.items}

    def page(self, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
        """The template as an answer; see `templates.page`."""
        return page(self.request, template, visitor=self.caller, status=status, **context)

    def to(self, address: str, *units: Unit) -> RedirectResponse:
        """Lead on to another page; units that were queued are dispatched after the answer."""
        return RedirectResponse(address, 303, background=self.dispatching(*units))

    def dispatching(self, *units: Unit) -> BackgroundTask:
        """What dispatches units after an answer."""
        return BackgroundTask(dispatch, self.resources, *units)


def for_visitors(endpoint: Callable[..., Response], scope: Scope) -> Callable[..., Response]:
    """An endpoint of the HTTP interface that answers with a file, as one of the pages: the caller
    is a visitor whose key has the scope, and browsers save the file."""

    def answered(visit: Visit, **values: Any) -> Response:
        answer = endpoint(call=visit, **values)
        name = "-".join(visit.request.url.path.split("/")[2:])
        answer.headers.setdefault("Content-Disposition", f'attachment; filename="{name}"')
        answer.headers["Cache-Control"] = "no-store"
        return answer

    given = inspect.signature(endpoint)
    kept = [one for name, one in given.parameters.items() if name != "call"]
    visitor = inspect.Parameter(
        "visit",
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[Visit, Depends(visiting(scope))],
    )
    parameters = [*(one.replace(kind=one.KEYWORD_ONLY) for one in kept), visitor]
    answered.__signature__ = given.replace(parameters=parameters)  # type: ignore[attr-defined]
    return answered


def as_picture(charts: Iterable[Chart | None], name: str, form: PictureForm) -> Response:
    """The picture with this name as a file. Raises ProblemError where there is none, and for a PNG
    where the service has no extra `pdf`."""
    chart = next((one for one in charts if one is not None and one.name == name), None)
    if chart is None:
        raise not_found("picture")
    try:
        media_type = "image/png" if form == "png" else "image/svg+xml"
        return as_file(picture_file(chart, form), f"{name}.{form}", media_type)
    except PictureUnavailableError as error:
        raise ProblemError("unavailable", str(error)) from error


def _visit(request: Request, visitor: SignedIn, resources: Shared) -> Visit:
    return Visit(resources, visitor, request)


async def _posted(request: Request, visitor: SignedIn, fields: OwnForm, resources: Shared) -> Visit:
    """Raises ProblemError for a form that another site may have made."""
    word = fields.get(CSRF_FIELD)
    check_word(visitor, word if isinstance(word, str) else "")
    await run_sync(partial(resources.check_schema, within=SCHEMA_SECONDS))
    return Visit(resources, visitor, request, fields)


AnyVisit = Annotated[Visit, Depends(_visit)]
"""A request with a session, whatever the key's scopes."""
PostedForm = Annotated[Visit, Depends(_posted)]
"""A form from a visitor, whatever the key's scopes."""


def visiting(scope: Scope, *, of: Callable[..., Any] = _visit) -> Callable[[Visit], Visit]:
    """A dependency: a visit whose key has the scope. Raises ProblemError."""

    def check(visit: Annotated[Visit, Depends(of)]) -> Visit:
        require(visit.caller, scope)
        return visit

    return check


ExperimentsVisit = Annotated[Visit, Depends(visiting("experiments:read"))]
ReportsVisit = Annotated[Visit, Depends(visiting("reports:read"))]
FederationsVisit = Annotated[Visit, Depends(visiting("federations:read"))]
ExperimentsAuthor = Annotated[Visit, Depends(visiting("experiments:write"))]
FederationsAuthor = Annotated[Visit, Depends(visiting("federations:write"))]
ExperimentsForm = Annotated[Visit, Depends(visiting("experiments:write", of=_posted))]
SignOffForm = Annotated[Visit, Depends(visiting("reports:sign", of=_posted))]
FederationsForm = Annotated[Visit, Depends(visiting("federations:write", of=_posted))]
