"""Declared ledgers: the list, one of them with its rounds, its report, and what is verified."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import TypeAdapter
from starlette.responses import HTMLResponse, Response, StreamingResponse

from api.http.answers import decode_cursor, encode_cursor
from api.pages.session import ExperimentsVisitor, LedgerVisitor, ReportsVisitor
from api.pages.templates import page
from api.services.audit_log import note_export
from api.services.ledgers.stored_ledgers import (
    ledger_bundle,
    ledger_rounds,
    report_of,
    shown_ledger,
    summary,
    verify_ledger,
)
from api.services.report_pages import page_response
from api.shared.resources import Shared
from fedaudit.reports.page.html import Link, render_declared
from fedaudit.spec.base import Text
from fedaudit.spec.declared_ledgers import MAX_ROUND
from models.repositories import DeclaredLedgerRepository

router = APIRouter(prefix="/ledgers")

_ON_A_PAGE = 25
_ROUNDS_ON_A_PAGE = 100
_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])


@router.get("")
def ledgers_list(
    request: Request,
    visitor: ExperimentsVisitor,
    resources: Shared,
    cursor: Annotated[str | None, Query(max_length=4000)] = None,
) -> HTMLResponse:
    """The project's ledgers, newest first."""
    after = decode_cursor("ledgers", cursor, _KEY)
    with resources.database.read() as session:
        found = DeclaredLedgerRepository(session, visitor.caller.project_id).list(
            cursor=after, limit=_ON_A_PAGE
        )
    return page(
        request,
        "ledgers.html",
        visitor=visitor,
        ledgers=[summary(row) for row in found.items],
        first_page="/ledgers" if cursor else None,
        next_cursor=encode_cursor("ledgers", found.next_cursor),
    )


@router.get("/{ledger_id}")
def ledger_page(
    request: Request,
    ledger_id: str,
    visitor: ExperimentsVisitor,
    resources: Shared,
    below: Annotated[int | None, Query(ge=1, le=MAX_ROUND + 1)] = None,
) -> HTMLResponse:
    """What was declared, and what it comes to."""
    return page(
        request,
        "ledger.html",
        visitor=visitor,
        ledger=shown_ledger(resources, visitor.caller, ledger_id),
        found=ledger_rounds(
            resources, visitor.caller, ledger_id, below=below, limit=_ROUNDS_ON_A_PAGE
        ),
        below=below,
    )


@router.get("/{ledger_id}/report")
def ledger_report_page(ledger_id: str, visitor: ReportsVisitor, resources: Shared) -> HTMLResponse:
    """The report: the page that can be kept, with a line of links above it."""
    document = report_of(resources, visitor.caller, ledger_id).document
    base = f"/ledgers/{ledger_id}"
    links = [
        *([Link(base, "Ledger")] if visitor.may("experiments:read") else []),
        Link(f"{base}/verification", "Verification"),
        *([Link(f"{base}/bundle.zip", "Save the bundle")] if visitor.may("ledger:read") else []),
    ]
    return page_response(render_declared(document, links=links))


@router.get("/{ledger_id}/verification")
def ledger_verification_page(
    request: Request, ledger_id: str, visitor: ReportsVisitor, resources: Shared
) -> HTMLResponse:
    """Whether the report still agrees with what is stored, everything recomputed."""
    found = verify_ledger(resources, visitor.caller, ledger_id)
    return page(
        request,
        "verification.html",
        visitor=visitor,
        verification=found,
        base=f"/ledgers/{ledger_id}",
        declared=True,
    )


@router.get("/{ledger_id}/bundle.zip")
def ledger_bundle_file(ledger_id: str, visitor: LedgerVisitor, resources: Shared) -> Response:
    """Everything that a verification without the service needs."""
    chunks = ledger_bundle(resources, visitor.caller, ledger_id)
    note_export(resources, visitor.caller, ledger_id, "bundle")
    headers = {
        "Content-Disposition": f'attachment; filename="{ledger_id}-bundle.zip"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(chunks, media_type="application/zip", headers=headers)
