"""Audits of predictions: the form that asks for one, its report, and whether it was altered."""

import math
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from api.http.answers import PDF, ZIP, Appendix, as_file
from api.http.problems import ProblemError
from api.pages.templates import new_once
from api.pages.visits import (
    ONCE,
    ExperimentsAuthor,
    ExperimentsForm,
    ReportsVisit,
    Visit,
    as_picture,
    faults_by_field,
)
from api.services.audits import ask_for_audit, audit_bundle, find_audited, verify_audit
from api.services.report_pages import page_response
from fedaudit.reports.page.html import Link, render_audit, report_pictures
from fedaudit.reports.page.picture_files import PictureForm
from fedaudit.spec.errors import InvalidInputError

router = APIRouter(prefix="/audits")

_TEXTS = ("name", "id", "path", "truth", "prediction", "score", "threshold", "client_key")
_LISTS = ("sensitive", "favourable")
"""Columns, or values, separated by commas."""
_SHOWN_ABOVE = (409, 429)


@router.get("/new")
def new_audit_page(visit: ExperimentsAuthor) -> HTMLResponse:
    """The form, still empty."""
    return _form(visit, {ONCE: new_once()})


@router.post("/new")
async def post_audit(form: ExperimentsForm) -> Response:
    """Ask for the audit; the same form does it once. A faulty form is shown again."""
    # The file is read to its end for its hash, which may take as long as loading it.
    return await form.run(partial(_answer, form))


@router.get("/{audit_id}")
def audit_page(audit_id: str, visit: ReportsVisit) -> HTMLResponse:
    """The report: the page that can be kept, with a line of links above it."""
    with visit.reading() as session:
        document = find_audited(session, visit.caller, audit_id).report or {}
    base = f"/audits/{audit_id}"
    links = [
        *([Link("/audits", "All audits")] if visit.may("experiments:read") else []),
        Link(f"{base}/verification", "Verification"),
        Link(f"{base}/report.pdf", "Save as PDF"),
        Link(f"{base}/bundle.zip", "Save the bundle"),
    ]
    return page_response(render_audit(document, links=links, files=f"{base}/pictures"))


@router.get("/{audit_id}/report.pdf")
def audit_pdf(audit_id: str, visit: ReportsVisit, *, appendix: Appendix = False) -> Response:
    """The report on paper, as a file."""
    with visit.reading() as session:
        document = find_audited(session, visit.caller, audit_id).report or {}
    page = render_audit(document, appendix=appendix)
    return as_file(visit.resources.printer.pdf(page), f"{audit_id}-report.pdf", PDF)


@router.get("/{audit_id}/pictures/{name}.{form}")
def audit_picture(audit_id: str, name: str, form: PictureForm, visit: ReportsVisit) -> Response:
    """A picture of the report's page, as a file."""
    with visit.reading() as session:
        document = find_audited(session, visit.caller, audit_id).report or {}
    return as_picture(report_pictures(document), name, form)


@router.get("/{audit_id}/verification")
def audit_verification_page(audit_id: str, visit: ReportsVisit) -> HTMLResponse:
    """Whether the report is the signed one, and what follows from its figures, recomputed."""
    with visit.reading() as session:
        found = verify_audit(session, visit.caller, audit_id)
    return visit.page("audit_verification.html", verification=found)


@router.get("/{audit_id}/bundle.zip")
def audit_bundle_file(audit_id: str, visit: ReportsVisit) -> Response:
    """Everything that a verification without the service needs."""
    with visit.reading() as session:
        chunks = audit_bundle(session, visit.caller, audit_id)
    return as_file(chunks, f"{audit_id}-bundle.zip", ZIP)


def _answer(form: Visit) -> Response:
    typed = form.texts(*_TEXTS, *_LISTS, ONCE)
    try:
        value: dict[str, Any] = {name: typed[name] for name in _TEXTS if typed[name]}
        if "threshold" in value:
            value["threshold"] = _finite(typed["threshold"])
        for name in _LISTS:
            parts = [part.strip() for part in typed[name].split(",") if part.strip()]
            if parts:
                value[name] = parts
        asked = ask_for_audit(form.call, value, form.once)
    except InvalidInputError as error:
        return _form(form, typed, faults=faults_by_field(error, _field_of), status=422)
    except ProblemError as error:
        if error.status not in _SHOWN_ABOVE:
            raise
        return _form(form, typed, faults={"": error.detail}, status=error.status)
    if form.may("experiments:read"):
        return form.to("/audits", asked.unit_message)
    answer = _form(form, {ONCE: new_once()}, asked=asked.row.id, status=202)
    answer.background = form.dispatching(asked.unit_message)
    return answer


def _finite(text: str) -> float | str:
    """The text as a number; other texts stay as they are and are refused later."""
    try:
        found = float(text)
    except ValueError:
        return text
    return found if math.isfinite(found) else text


def _field_of(pointer: str) -> str:
    name = pointer.split("/")[1] if "/" in pointer else ""
    return name if name in (*_TEXTS, *_LISTS) else ""


def _form(
    visit: Visit,
    typed: dict[str, str],
    *,
    faults: dict[str, str] | None = None,
    asked: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    return visit.page(
        "new_audit.html",
        status=status,
        typed=typed,
        faults=faults or {},
        asked=asked,
        federations=[("", "none: a path below"), *visit.federation_names().items()],
    )
