"""Audits of predictions: the report of one, and whether it was altered."""

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

from api.pages.visits import ReportsVisit, as_picture, for_visitors
from api.routers import audits
from api.services.report_pages import page_response
from fedaudit.reports.page.html import Link, render, report_pictures
from fedaudit.reports.page.picture_files import PictureForm

router = APIRouter(prefix="/audits")


@router.get("/{audit_id}")
def audit_page(audit_id: str, visit: ReportsVisit) -> HTMLResponse:
    """The report: the page that can be kept, with a line of links above it. Of one without a report
    its line in the list, with its faults."""
    found = audits.get_audit(audit_id, visit) if visit.may("experiments:read") else None
    if found is not None and found.status != "succeeded":
        return visit.page(
            "audits.html", audits=[found], degenerate={}, first_page="/audits", next_page=None
        )
    document = audits.audit_report(visit, audit_id)
    base = f"/audits/{audit_id}"
    links = [
        *([Link("/audits", "All audits")] if visit.may("experiments:read") else []),
        Link(f"{base}/verification", "Verification"),
        Link(f"{base}/report.pdf", "Save as PDF"),
        Link(f"{base}/bundle.zip", "Save the bundle"),
    ]
    return page_response(render(document, links=links, files=f"{base}/pictures"))


@router.get("/{audit_id}/pictures/{name}.{form}")
def audit_picture(audit_id: str, name: str, form: PictureForm, visit: ReportsVisit) -> Response:
    """A picture of the report's page, as a file."""
    return as_picture(report_pictures(audits.audit_report(visit, audit_id)), name, form)


@router.get("/{audit_id}/verification")
def audit_verification_page(audit_id: str, visit: ReportsVisit) -> HTMLResponse:
    """Whether the report is the signed one, and what follows from its figures, recomputed."""
    found = audits.verify_audit_report(audit_id, visit)
    return visit.page("audit_verification.html", verification=found)


router.add_api_route("/{audit_id}/report.pdf", for_visitors(audits.get_audit_pdf, "reports:read"))
router.add_api_route(
    "/{audit_id}/bundle.zip", for_visitors(audits.get_audit_bundle, "reports:read")
)
