"""Audits of predictions alone: from a table to a fairness report, without any training."""

from functools import partial
from typing import Annotated, Any, Literal

from anyio.to_thread import run_sync
from fastapi import APIRouter, BackgroundTasks, Query, Request, Response
from pydantic import TypeAdapter
from starlette.responses import JSONResponse, StreamingResponse

from api.http.bodies import JsonBody
from api.http.cursors import decode_cursor, encode_cursor
from api.http.links import Linked
from api.http.negotiation import Accept, preferred
from api.openapi import Responses, problems, request_body, schema_of
from api.schemas.base import IdempotencyHeader, PageParameters
from api.schemas.reports import AuditBody, AuditPage, AuditVerification
from api.services.audits.audit_admission import ask_for_audit
from api.services.audits.audit_evidence import audit_bundle, verify_audit
from api.services.audits.audit_lookups import find_audit, find_audited
from api.services.base.dispatch import dispatch
from api.services.reports.report_pages import page_response
from api.shared.data_faults import shown_faults
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, ExperimentsReader, ExperimentsWriter, ReportsReader
from fedaudit.audits.audit_document import AuditReport
from fedaudit.audits.audit_view import as_report_of_run
from fedaudit.reports.readings.impact_ratio import ImpactRatioReading
from fedaudit.reports.readings.reading_choice import reading
from fedaudit.spec.audits.audit_spec import AuditSpec
from fedaudit.spec.base import Text
from models.repositories import AuditRepository
from models.tables.reports import PredictionAudit

router = APIRouter(prefix="/audits", tags=["audits"])

_KEY: TypeAdapter[Any] = TypeAdapter(tuple[Text])
_LOCATION = {"Location": {"description": "The audit.", "schema": {"type": "string"}}}
_JSON = {"application/json": {"schema": schema_of(AuditReport)}}
_FORMS = {
    "application/json": {
        "schema": {"anyOf": [schema_of(AuditReport), schema_of(ImpactRatioReading)]}
    }
}
_HTML = {"text/html": {"schema": {"type": "string"}}}
_ZIP, _BYTES = "application/zip", "application/octet-stream"
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
AuditReading = Literal["impact-ratio"]


def _responses(content: dict[str, dict[str, Any]]) -> Responses:
    return {**problems(404), 200: {"description": "The report.", "content": content}}


@router.post(
    "",
    status_code=202,
    responses={
        **problems(409, 415, 429),
        202: {"description": "To be made by a worker.", "headers": _LOCATION},
    },
    openapi_extra=request_body(AuditSpec),
)
async def create_audit(
    *,
    request: Request,
    caller: ExperimentsWriter,
    value: JsonBody,
    resources: Shared,
    background: BackgroundTasks,
    response: Response,
    idempotency_key: IdempotencyHeader = None,
) -> AuditBody:
    """Ask for an audit of the predictions in a table. Nothing is trained.

    The table lies below the sources folder (`path`), or is a federation's file (`id`). What in it
    does not fit is told by the audit's `errors` once a worker has read it.
    """
    # The file is read to its end for its hash, which may take as long as loading it.
    asked = await resources.loads.run(
        caller.project_id,
        partial(ask_for_audit, resources, caller, value, idempotency_key),
        request=request,
    )
    if asked.unit_message is not None:
        background.add_task(dispatch, resources, asked.unit_message)
    response.headers["Location"] = f"/v1/audits/{asked.audit.id}"
    return await run_sync(partial(_body, asked.audit, caller))


@router.get("", responses=problems())
def list_audits(
    caller: ExperimentsReader,
    parameters: Annotated[PageParameters, Query()],
    resources: Shared,
    linked: Linked[AuditPage],
) -> AuditPage:
    """The project's audits, newest first."""
    cursor = decode_cursor("audits", parameters.cursor, _KEY)
    with resources.database.read() as session:
        page = AuditRepository(session, caller.project_id).list(
            cursor=cursor, limit=parameters.limit
        )
    return linked(
        AuditPage(
            items=[_body(row, caller) for row in page.items],
            next_cursor=encode_cursor("audits", page.next_cursor),
        )
    )


@router.get("/{audit_id}", responses=problems(404))
def get_audit(audit_id: str, caller: ExperimentsReader, resources: Shared) -> AuditBody:
    """One audit: how it stands, and what is to be mended where it failed."""
    with resources.database.read() as session:
        return _body(find_audit(session, caller, audit_id), caller)


@router.get("/{audit_id}/report", response_class=Response, responses=_responses({**_JSON, **_HTML}))
def get_audit_report(
    audit_id: str,
    caller: ReportsReader,
    resources: Shared,
    accept: Accept,
    name: Annotated[AuditReading | None, Query(alias="reading")] = None,
) -> Response:
    """The report of an audit, as JSON or as a page, by the header Accept.

    The `reading` of impact ratios is JSON, whatever is accepted; the others are of trainings.
    """
    row = _audited(resources, caller, audit_id)
    if name is not None:
        return JSONResponse(reading(as_report_of_run(row.report or {}), name))
    if preferred(accept, ("application/json", "text/html")) == "text/html":
        return _page(row)
    return _document(row)


@router.get("/{audit_id}/report.json", response_class=Response, responses=_responses(_JSON))
def get_audit_document(audit_id: str, caller: ReportsReader, resources: Shared) -> Response:
    """The report as JSON, as it was stored."""
    return _document(_audited(resources, caller, audit_id))


@router.get("/{audit_id}/report.html", response_class=Response, responses=_responses(_HTML))
def get_audit_page(audit_id: str, caller: ReportsReader, resources: Shared) -> Response:
    """The report as one page without scripts."""
    return _page(_audited(resources, caller, audit_id))


@router.get("/{audit_id}/report/verification", responses=problems(404))
def verify_audit_report(
    audit_id: str, caller: ReportsReader, resources: Shared
) -> AuditVerification:
    """Check the report: its signature, and whatever follows from the figures that it publishes.

    `not_verified` says what no check can: the rows are not kept.
    """
    with resources.database.read() as session:
        return verify_audit(session, caller, audit_id)


@router.get("/{audit_id}/bundle", response_class=StreamingResponse, responses=_BUNDLE)
def get_audit_bundle(
    audit_id: str, caller: ReportsReader, resources: Shared, accept: Accept
) -> StreamingResponse:
    """Everything that `fedaudit verify` needs, in a zip file: report, spec and public keys.

    It holds nothing that the report does not.
    """
    with resources.database.read() as session:
        chunks = audit_bundle(session, caller, audit_id)
    return StreamingResponse(
        chunks,
        media_type=preferred(accept, (_ZIP, _BYTES)),
        headers={"Content-Disposition": f'attachment; filename="{audit_id}-bundle.zip"'},
    )


def _body(row: PredictionAudit, caller: Caller) -> AuditBody:
    return AuditBody.of(row, faults=shown_faults(row.faults, caller=caller))


def _audited(resources: Resources, caller: Caller, audit_id: str) -> PredictionAudit:
    with resources.database.read() as session:
        return find_audited(session, caller, audit_id)


def _document(row: PredictionAudit) -> Response:
    return JSONResponse(row.report, headers={"ETag": f'"{row.report_hash}"'})


def _page(row: PredictionAudit) -> Response:
    # Imported here because most calls do not need templates.
    from fedaudit.audits.audit_page import render_audit

    return page_response(render_audit(row.report or {}))
