"""Audits of predictions: the list, one report, and whether it is still what was signed."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import TypeAdapter
from starlette.responses import HTMLResponse, Response, StreamingResponse

from api.http.answers import decode_cursor, encode_cursor
from api.pages.session import ExperimentsVisitor, ReportsVisitor
from api.pages.templates import page
from api.schemas.reports import AuditBody
from api.services.audits import audit_bundle, find_audited, verify_audit
from api.services.report_pages import page_response
from api.shared.data_faults import shown_faults
from api.shared.resources import Shared
from fedaudit.reports.page.html import Link
from fedaudit.spec.base import Text
from models.repositories import AuditRepository

router = APIRouter(prefix="/audits")

_ON_A_PAGE = 25
_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])


@router.get("")
def audits_list(
    request: Request,
    visitor: ExperimentsVisitor,
    resources: Shared,
    cursor: Annotated[str | None, Query(max_length=4000)] = None,
) -> HTMLResponse:
    """The project's audits, newest first."""
    after = decode_cursor("audits", cursor, _KEY)
    with resources.database.read() as session:
        audits = AuditRepository(session, visitor.caller.project_id)
        found = audits.list(cursor=after, limit=_ON_A_PAGE)
        degenerate = audits.degenerate([row.id for row in found.items])
    return page(
        request,
        "audits.html",
        visitor=visitor,
        audits=[
            AuditBody.of(row, faults=shown_faults(row.faults, caller=visitor.caller))
            for row in found.items
        ],
        degenerate=degenerate,
        first_page="/audits" if cursor else None,
        next_cursor=encode_cursor("audits", found.next_cursor),
    )


@router.get("/{audit_id}")
def audit_page(audit_id: str, visitor: ReportsVisitor, resources: Shared) -> HTMLResponse:
    """The report: the page that can be kept, with a line of links above it."""
    from fedaudit.audits.audit_page import render_audit

    with resources.database.read() as session:
        document = find_audited(session, visitor.caller, audit_id).report or {}
    base = f"/audits/{audit_id}"
    links = [
        *([Link("/audits", "All audits")] if visitor.may("experiments:read") else []),
        Link(f"{base}/verification", "Verification"),
        Link(f"{base}/bundle.zip", "Save the bundle"),
    ]
    return page_response(render_audit(document, links=links))


@router.get("/{audit_id}/verification")
def audit_verification_page(
    request: Request, audit_id: str, visitor: ReportsVisitor, resources: Shared
) -> HTMLResponse:
    """Whether the report is the signed one, and what follows from its figures, made anew."""
    with resources.database.read() as session:
        found = verify_audit(session, visitor.caller, audit_id)
    return page(request, "audit_verification.html", visitor=visitor, verification=found)


@router.get("/{audit_id}/bundle.zip")
def audit_bundle_file(audit_id: str, visitor: ReportsVisitor, resources: Shared) -> Response:
    """Everything that a verification without the service needs."""
    with resources.database.read() as session:
        chunks = audit_bundle(session, visitor.caller, audit_id)
    headers = {
        "Content-Disposition": f'attachment; filename="{audit_id}-bundle.zip"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(chunks, media_type="application/zip", headers=headers)
