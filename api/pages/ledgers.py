"""One declared ledger: its rounds, its report, and what is verified."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, Response

from api.pages.visits import ExperimentsVisit, ReportsVisit, as_picture, for_visitors
from api.routers.ledger_reports import (
    get_ledger_bundle,
    get_ledger_report_pdf,
    report_of,
    verify_ledger_report,
)
from api.routers.ledgers import get_ledger, ledger_rounds
from api.services.report_pages import page_response
from fedaudit.reports.declared.declared_report import declared_next
from fedaudit.reports.page.html import Link, render_declared, report_pictures
from fedaudit.reports.page.picture_files import PictureForm
from fedaudit.spec.declared_ledgers import MAX_ROUND

router = APIRouter(prefix="/ledgers/{ledger_id}")

_ROUNDS_ON_A_PAGE = 100


@router.get("")
def ledger_page(
    ledger_id: str,
    visit: ExperimentsVisit,
    below: Annotated[int | None, Query(ge=1, le=MAX_ROUND + 1)] = None,
) -> HTMLResponse:
    """What was declared, and its totals."""
    rounds = ledger_rounds(visit, ledger_id, below=below, limit=_ROUNDS_ON_A_PAGE)
    ledger = get_ledger(ledger_id, visit)
    report = report_of(visit, ledger_id).document if visit.may("reports:read") else {}
    return visit.page(
        "ledger.html",
        ledger=ledger,
        found=rounds,
        below=below,
        answer=report.get("answer"),
        tests=report.get("tests"),
        next_step=declared_next(report) if report else "",
        pictures=report_pictures(report) if report.get("ledger", {}).get("rounds") else [],
    )


@router.get("/report")
def ledger_report_page(ledger_id: str, visit: ReportsVisit) -> HTMLResponse:
    """The report: the page that can be kept, with a line of links above it."""
    document = report_of(visit, ledger_id).document
    base = f"/ledgers/{ledger_id}"
    links = [
        *([Link(base, "Ledger")] if visit.may("experiments:read") else []),
        Link(f"{base}/verification", "Verification"),
        Link(f"{base}/report.pdf", "Save as PDF"),
        *([Link(f"{base}/bundle.zip", "Save the bundle")] if visit.may("ledger:read") else []),
    ]
    return page_response(render_declared(document, links=links, files=f"{base}/pictures"))


@router.get("/pictures/{name}.{form}")
def ledger_picture(ledger_id: str, name: str, form: PictureForm, visit: ReportsVisit) -> Response:
    """A picture of the report's page, as a file."""
    charts = report_pictures(report_of(visit, ledger_id).document)
    return as_picture(charts, name, form)


@router.get("/verification")
def ledger_verification_page(ledger_id: str, visit: ReportsVisit) -> HTMLResponse:
    """Whether the report still agrees with what is stored, everything recomputed."""
    found = verify_ledger_report(ledger_id, visit)
    base = f"/ledgers/{ledger_id}"
    return visit.page("verification.html", verification=found, base=base, declared=True)


router.add_api_route("/report.pdf", for_visitors(get_ledger_report_pdf, "reports:read"))
router.add_api_route("/bundle.zip", for_visitors(get_ledger_bundle, "ledger:read"))
