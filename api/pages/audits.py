"""Audits of predictions: the report of one, and whether it was altered."""

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from api.http.answers import Appendix, pdf_response
from api.pages.visits import ReportsVisit, as_file, as_picture
from api.services.audits import audit_bundle, find_audited, verify_audit
from api.services.report_pages import page_response
from fedaudit.reports.page.html import Link, render_audit, report_pictures
from fedaudit.reports.page.picture_files import PictureForm

router = APIRouter(prefix="/audits")


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
    return pdf_response(visit.resources.printer.pdf(page), audit_id)


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
    return as_file(chunks, f"{audit_id}-bundle.zip", "application/zip")
