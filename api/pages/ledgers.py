"""One declared ledger: its rounds, its report, and what is verified."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, Response

from api.pages.visits import ExperimentsVisit, ReportsVisit, as_picture, for_visitors
from api.routers.ledger_reports import (
    federation_units,
    get_ledger_bundle,
    get_ledger_report_pdf,
    report_of,
    verify_ledger_report,
)
from api.routers.ledgers import find_ledger, get_ledger
from api.services.report_pages import page_response
from fedaudit.privacy.declared.figures import contradictions
from fedaudit.reports.declared.declared_report import declared_next
from fedaudit.reports.page.html import Link, render, report_pictures
from fedaudit.reports.page.picture_files import PictureForm
from fedaudit.spec.declared_ledgers import MAX_ROUND
from models.repositories import DeclaredPartRepository
from models.repositories.declared_ledgers import REFUSED, RELEASED, USED
from models.tables.ledger import DeclaredReservation
from models.values import utc_now

router = APIRouter(prefix="/ledgers/{ledger_id}")

_ON_A_PAGE = 100


@router.get("")
def ledger_page(
    ledger_id: str,
    visit: ExperimentsVisit,
    below: Annotated[int | None, Query(ge=1, le=MAX_ROUND + 1)] = None,
) -> HTMLResponse:
    """What was declared, and its totals, with the newest rounds `below` one."""
    with visit.reading() as session:
        row = find_ledger(session, visit.caller, ledger_id)
        state = visit.resources.ledgers.get(session, visit.project_id, ledger_id)
        parts = DeclaredPartRepository(session, visit.project_id)
        rounds = parts.newest_rounds(row.id, below=below, limit=_ON_A_PAGE + 1)
        reservations = parts.reservations(row.id)
        units = federation_units(session, row)
    assert state is not None
    report = report_of(visit, ledger_id).document if visit.may("reports:read") else {}
    refused = {one.round: one.refused for one in reservations}
    became = [(one, _became(one, last_round=row.last_round)) for one in reversed(reservations)]
    unanswered = [(one, end) for one, end in became if end is not None]
    return visit.page(
        "ledger.html",
        ledger=get_ledger(ledger_id, visit),
        rounds=[(one, refused.get(one.round, 0)) for one in rounds[:_ON_A_PAGE]],
        older=rounds[_ON_A_PAGE - 1].round if len(rounds) > _ON_A_PAGE else None,
        reservations=unanswered[:_ON_A_PAGE],
        more_reservations=max(0, len(unanswered) - _ON_A_PAGE),
        reserved_any=bool(reservations),
        contradictions=contradictions(state.terms, state.histories, state.drawn, units),
        below=below,
        answer=report.get("answer"),
        tests=report.get("tests"),
        next_step=declared_next(report) if report else "",
        pictures=report_pictures(report) if report.get("ledger", {}).get("rounds") else [],
    )


def _became(one: DeclaredReservation, *, last_round: int) -> str | None:
    """What became of a reservation without a round; None where its round was declared.
    `unanswered`: the round may have run."""
    ends = {USED: None, REFUSED: "refused", RELEASED: "given-back"}
    if one.state in ends:
        return ends[one.state]
    return "unanswered" if one.expires_at <= utc_now() or one.round < last_round else "held"


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
    return page_response(render(document, links=links, files=f"{base}/pictures"))


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
