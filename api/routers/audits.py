"""Audits of predictions alone: from a table to a fairness report, without any training."""

from functools import partial
from typing import Annotated, Literal

from anyio.to_thread import run_sync
from fastapi import APIRouter, BackgroundTasks, Query, Response
from starlette.responses import JSONResponse, StreamingResponse

from api.http.answers import (
    HTML,
    JSON,
    PDF,
    ZIP,
    Accept,
    Appendix,
    as_file,
    earlier_name,
    preferred,
)
from api.http.bodies import JsonBody
from api.openapi import BUNDLE, PAGE, PDF_FILE, contents, located, problems, request_body, schema_of
from api.schemas.base import IdempotencyHeader, PageParameters
from api.schemas.reports import AuditBody, AuditPage, AuditVerification
from api.services.audits import ask_for_audit, audit_bundle, audit_report, find_audit, verify_audit
from api.services.dispatch import dispatch
from api.services.lookups import list_page
from api.services.report_pages import page_response
from api.shared.data_faults import shown_faults
from api.shared.security import Caller, ExperimentsReader, ExperimentsWriter, ReportsReader
from fedaudit.reports.audit_report import AuditReport
from fedaudit.reports.page.html import render_audit
from fedaudit.reports.readings.readings import ImpactRatioReading, reading
from fedaudit.reports.sections.predictions import as_report_of_run
from fedaudit.spec.audits import AuditSpec, parse_audit
from models.repositories import AuditRepository
from models.tables.experiments import PredictionAudit

router = APIRouter(prefix="/audits", tags=["audits"])

_REPORT = contents("The report.", JSON, schema_of(AuditReport), 404)
_READING = contents("The reading.", JSON, schema_of(ImpactRatioReading), 404)
AuditReading = Literal["impact-ratio"]


@router.post(
    "",
    status_code=202,
    responses=problems(409, 415, 429) | located(202, "To be made by a worker.", "audit"),
    openapi_extra=request_body(AuditSpec),
)
async def create_audit(
    *,
    call: ExperimentsWriter,
    value: JsonBody,
    background: BackgroundTasks,
    response: Response,
    idempotency_key: IdempotencyHeader = None,
) -> AuditBody:
    """Ask for an audit of the predictions in a table. Nothing is trained.

    The table is below the sources folder (`path`), or is a federation's file (`id`). The audit's
    `errors` state what does not fit once a worker has read it.
    """
    # The file is read to its end for its hash, which may take as long as loading it.
    asked = await call.resources.loads.run(
        call.project_id, partial(ask_for_audit, call, value, idempotency_key)
    )
    if asked.unit is not None:
        background.add_task(dispatch, call.resources, asked.unit)
    response.headers["Location"] = f"/v1/audits/{asked.row.id}"
    return await run_sync(partial(_body, asked.row, caller=call.caller))


@router.get("", responses=problems())
def list_audits(
    call: ExperimentsReader, parameters: Annotated[PageParameters, Query()]
) -> AuditPage:
    """The project's audits, newest first."""
    with call.reading() as session:
        rows = AuditRepository(session, call.project_id).list
        bodies = partial(map, partial(_body, caller=call.caller))
        return list_page(AuditPage, "audits", parameters, rows, bodies)


@router.get("/{audit_id}", responses=problems(404))
def get_audit(audit_id: str, call: ExperimentsReader) -> AuditBody:
    """One audit: how it stands, and what is to be mended where it failed."""
    with call.reading() as session:
        return _body(find_audit(session, call.caller, audit_id), caller=call.caller)


@router.get("/{audit_id}/report", response_class=Response, responses=_REPORT)
def get_audit_report(
    audit_id: str,
    call: ReportsReader,
    accept: Accept,
    name: Annotated[AuditReading | None, Query(alias="reading", include_in_schema=False)] = None,
) -> Response:
    """The report of an audit, as it was stored."""
    if name is not None:
        answer = get_audit_impact_ratios(audit_id, call)
        answer.headers.update(earlier_name(f"report/readings/{name}"))
        return answer
    as_page = preferred(accept, (JSON, HTML)) == HTML
    return (get_audit_page if as_page else get_audit_document)(audit_id, call)


@router.get("/{audit_id}/report/readings/impact-ratio", response_class=Response, responses=_READING)
def get_audit_impact_ratios(audit_id: str, call: ReportsReader) -> Response:
    """The report's impact ratios; the other readings are of trainings."""
    report = audit_report(call, audit_id)
    as_of_run = as_report_of_run(report, parse_audit(report["spec"]))
    return JSONResponse(reading(as_of_run, "impact-ratio"))


@router.get("/{audit_id}/report.json", response_class=Response, include_in_schema=False)
def get_audit_document(audit_id: str, call: ReportsReader) -> Response:
    """The report as JSON, as it was stored."""
    return JSONResponse(audit_report(call, audit_id))


@router.get("/{audit_id}/report.html", response_class=Response, responses=PAGE)
def get_audit_page(audit_id: str, call: ReportsReader) -> Response:
    """The report as one page without scripts."""
    return page_response(render_audit(audit_report(call, audit_id)))


@router.get("/{audit_id}/report.pdf", response_class=Response, responses=PDF_FILE)
def get_audit_pdf(audit_id: str, call: ReportsReader, *, appendix: Appendix = False) -> Response:
    """The report as a PDF file of at most 3 pages, and longer with its appendix."""
    page = render_audit(audit_report(call, audit_id), appendix=appendix)
    return as_file(call.resources.printer.pdf(page), f"{audit_id}-report.pdf", PDF)


@router.get("/{audit_id}/report/verification", responses=problems(404))
def verify_audit_report(audit_id: str, call: ReportsReader) -> AuditVerification:
    """Check the report: its signature, and all that follows from its published figures.

    `not_verified` lists what no check can verify: the rows are not kept.
    """
    with call.reading() as session:
        return verify_audit(session, call.caller, audit_id)


@router.get("/{audit_id}/bundle", response_class=StreamingResponse, responses=BUNDLE)
def get_audit_bundle(audit_id: str, call: ReportsReader) -> Response:
    """Everything that `fedaudit verify` needs, in a zip file: report, spec and public keys.

    It holds nothing beyond the report.
    """
    with call.reading() as session:
        chunks = audit_bundle(session, call.caller, audit_id)
    return as_file(chunks, f"{audit_id}-bundle.zip", ZIP)


def _body(row: PredictionAudit, *, caller: Caller) -> AuditBody:
    return AuditBody.of(row, faults=shown_faults(row.faults, caller=caller))
