"""One report: as it is kept, whether it still agrees with the ledger, and for its readers."""

import json
from typing import Any

import yaml
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from api.pages.session import ReportsVisitor, Visitor
from api.pages.templates import has_template, page
from api.services.base.lookups import find_report
from api.services.reports.report_pages import stored_page
from api.services.reports.stored_verification import verification_of
from api.shared.resources import Resources, Shared
from fedaudit.reports.page.html import Link
from fedaudit.reports.readings.reading_choice import READINGS, ReadingName, reading

router = APIRouter(prefix="/experiments/{experiment_id}")

_PLAIN_TEXT = "reading_text.html"
"""For a reading that has no template of its own."""


@router.get("/report")
def report_page(experiment_id: str, visitor: ReportsVisitor, resources: Shared) -> HTMLResponse:
    """The report: the page that can be kept, with a line of links above it."""
    base = f"/experiments/{experiment_id}"
    links = [
        Link("/", "All experiments"),
        Link(base, "How it ran"),
        Link(f"{base}/verification", "Verification"),
        *(Link(f"{base}/readings/{one.name}", one.title) for one in READINGS.values()),
        Link(f"/compare?experiment_id={experiment_id}", "Compare"),
        Link(f"{base}/report.html", "Save as HTML"),
        Link(f"{base}/report.json", "Save as JSON"),
    ]
    return stored_page(resources.database, visitor.caller, experiment_id, links=links)


@router.get("/report.html")
def saved_page(experiment_id: str, visitor: ReportsVisitor, resources: Shared) -> HTMLResponse:
    """The report's page as a file."""
    answer = stored_page(resources.database, visitor.caller, experiment_id)
    answer.headers["Content-Disposition"] = _attachment(experiment_id, "html")
    return answer


@router.get("/report.json")
def saved_document(experiment_id: str, visitor: ReportsVisitor, resources: Shared) -> Response:
    """The report's document as a file, as it was stored."""
    headers = {
        "Content-Disposition": _attachment(experiment_id, "json"),
        "Cache-Control": "no-store",
    }
    document = _document(resources, visitor, experiment_id)
    return Response(json.dumps(document), media_type="application/json", headers=headers)


@router.get("/verification")
def verification_page(
    request: Request, experiment_id: str, visitor: ReportsVisitor, resources: Shared
) -> HTMLResponse:
    """Whether the report still agrees with what is stored, everything computed anew."""
    found = verification_of(resources.database, visitor.caller, experiment_id)
    return page(request, "verification.html", visitor=visitor, verification=found)


@router.get("/readings/{name}")
def reading_page(
    request: Request,
    experiment_id: str,
    name: ReadingName,
    visitor: ReportsVisitor,
    resources: Shared,
) -> HTMLResponse:
    """The report in the form that one of its readers has to fill."""
    document = _document(resources, visitor, experiment_id)
    found = reading(document, name)
    text = found if isinstance(found, str) else yaml.safe_dump(found, sort_keys=False)
    own = f"reading_{name.replace('-', '_')}.html"
    return page(
        request,
        own if has_template(own) else _PLAIN_TEXT,
        visitor=visitor,
        experiment=document["experiment"],
        readings=READINGS,
        chosen=name,
        reading=found,
        text=text,
    )


def _document(resources: Resources, visitor: Visitor, experiment_id: str) -> dict[str, Any]:
    with resources.database.read() as session:
        return find_report(session, visitor.caller, experiment_id).document


def _attachment(experiment_id: str, ending: str) -> str:
    return f'attachment; filename="{experiment_id}-report.{ending}"'
