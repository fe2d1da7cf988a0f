"""What declared ledgers leave: their entries, reports and bundles."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response, StreamingResponse

from api.http.answers import Accept, LinkedAnswer, preferred
from api.openapi import Responses, problems, schema_of
from api.routers.experiment_tables import LEDGER_FILE, asked_form, ledger_page
from api.schemas.experiment_tables import LedgerFilters, LedgerPage, LedgerParameters, Verification
from api.services.audit_log import note_export
from api.services.ledgers.ledger_evidence import ledger_bundle, report_of, verify_ledger
from api.services.ledgers.ledger_opening import find_ledger
from api.services.report_pages import page_response
from api.services.tables import Form, LedgerTable, export
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, LedgerReader, ReportsReader
from fedaudit.reports.declared.declared_document import DeclaredReport
from models.repositories import DeclaredEntryRepository

router = APIRouter(prefix="/ledgers/{ledger_id}", tags=["ledgers"])

_ZIP, _BYTES = "application/zip", "application/octet-stream"
_JSON = {"application/json": {"schema": schema_of(DeclaredReport)}}
_HTML = {"text/html": {"schema": {"type": "string"}}}
_REPORT: Responses = {
    **problems(404),
    200: {"description": "The report.", "content": {**_JSON, **_HTML}},
}
_PAGE: Responses = {**problems(404), 200: {"description": "The report.", "content": _HTML}}
_BUNDLE: Responses = {
    **problems(404),
    200: {
        "description": "The bundle.",
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary"}}
            for media_type in (_ZIP, _BYTES)
        },
    },
}


@router.get("/privacy-ledger", response_model=LedgerPage, responses=LEDGER_FILE)
def list_declared_entries(
    *,
    ledger_id: str,
    caller: LedgerReader,
    parameters: Annotated[LedgerParameters, Query()],
    resources: Shared,
    accept: Accept,
    linked: LinkedAnswer,
) -> Response:
    """What each declared round cost each client. Files carry all that the filters let through."""
    form = asked_form(accept)
    if form is not None:
        return _file(resources, caller, ledger_id, form, parameters)
    table = partial(_table, resources, caller, ledger_id, parameters)
    return linked(ledger_page(resources, "declared-ledger", parameters, table))


@router.get("/privacy-ledger.{form}", response_class=StreamingResponse, responses=LEDGER_FILE)
def export_declared_entries(
    ledger_id: str,
    form: Form,
    caller: LedgerReader,
    filters: Annotated[LedgerFilters, Query()],
    resources: Shared,
) -> StreamingResponse:
    """What each declared round cost each client, as a file."""
    return _file(resources, caller, ledger_id, form, filters)


@router.get("/report", response_class=Response, responses=_REPORT)
def get_ledger_report(
    ledger_id: str, caller: ReportsReader, resources: Shared, accept: Accept
) -> Response:
    """The report as JSON or as a page, by the header Accept; signed within seconds of a round."""
    if preferred(accept, ("application/json", "text/html")) == "text/html":
        return _page(resources, caller, ledger_id)
    return _document(resources, caller, ledger_id)


@router.get("/report.json", response_class=Response, responses=_REPORT)
def get_ledger_report_document(
    ledger_id: str, caller: ReportsReader, resources: Shared
) -> Response:
    """The report as JSON."""
    return _document(resources, caller, ledger_id)


@router.get("/report.html", response_class=Response, responses=_PAGE)
def get_ledger_report_page(ledger_id: str, caller: ReportsReader, resources: Shared) -> Response:
    """The report as one page without scripts."""
    return _page(resources, caller, ledger_id)


@router.get("/report/verification", responses=problems(404))
def verify_ledger_report(ledger_id: str, caller: ReportsReader, resources: Shared) -> Verification:
    """Checks the report against the stored entries: digests, chain, epsilons and hashes anew.

    `experiment_id` of the answer is the ledger's.
    """
    return verify_ledger(resources, caller, ledger_id)


@router.get("/bundle", response_class=StreamingResponse, responses=_BUNDLE)
def get_ledger_bundle(
    ledger_id: str, caller: LedgerReader, resources: Shared, accept: Accept
) -> StreamingResponse:
    """Everything that `fedaudit verify` needs, in a zip file: report, entries, checkpoints, keys.

    Up to the newest signed report.
    """
    chunks = ledger_bundle(resources, caller, ledger_id)
    note_export(resources, caller, ledger_id, "bundle")
    name = f'attachment; filename="{ledger_id}-bundle.zip"'
    return StreamingResponse(
        chunks, media_type=preferred(accept, (_ZIP, _BYTES)), headers={"Content-Disposition": name}
    )


def _document(resources: Resources, caller: Caller, ledger_id: str) -> Response:
    found = report_of(resources, caller, ledger_id)
    return JSONResponse(found.document, headers={"ETag": f'"{found.report_hash}"'})


def _page(resources: Resources, caller: Caller, ledger_id: str) -> Response:
    from fedaudit.reports.page.html import render_declared

    return page_response(render_declared(report_of(resources, caller, ledger_id).document))


def _table(
    resources: Resources, caller: Caller, ledger_id: str, filters: LedgerFilters
) -> LedgerTable:
    with resources.database.read() as session:
        found = find_ledger(session, caller, ledger_id)
    return LedgerTable(
        caller.project_id, found.id, found.names, filters, rows=DeclaredEntryRepository
    )


def _file(
    resources: Resources, caller: Caller, ledger_id: str, form: Form, filters: LedgerFilters
) -> StreamingResponse:
    table = _table(resources, caller, ledger_id, filters)
    note_export(resources, caller, ledger_id, form)
    name = f"{ledger_id}-privacy-ledger"
    return export(table, resources.database, what="ledger", form=form, file_name=name)
