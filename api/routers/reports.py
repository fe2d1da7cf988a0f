"""Audit reports, and whether they still agree with what is stored."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import JSONResponse, Response, StreamingResponse

from api.http.negotiation import Accept, preferred
from api.openapi import Responses, problems, schema_of
from api.schemas.experiment_tables import Verification
from api.services.attacks.stored_attacks import find_judged
from api.services.audit_log.ledger_exports import note_export
from api.services.base.lookups import find_experiment, find_report
from api.services.reports.bundles import bundle_of
from api.services.reports.model_files import (
    SAFETENSORS,
    model_response,
    stored_layout,
    stored_model,
)
from api.services.reports.report_pages import stored_page
from api.services.reports.report_pdfs import stored_pdf
from api.services.reports.stored_verification import verification_of
from api.shared.resources import Resources, Shared
from api.shared.security import Caller, FederationsReader, LedgerReader, ReportsReader
from fedaudit.reports.document.document import Report as ReportDocument
from fedaudit.reports.readings.reading import ReportReading
from fedaudit.reports.readings.reading_choice import READINGS, ReadingName, reading

router = APIRouter(prefix="/experiments/{experiment_id}", tags=["reports"])

_JSON = {"application/json": {"schema": schema_of(ReportDocument)}}
_ZIP = "application/zip"
_BYTES = "application/octet-stream"
"""What clients without a word for zip files ask for."""
_BUNDLE: Responses = {
    **problems(404, 409),
    200: {
        "description": "The bundle.",
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary"}}
            for media_type in (_ZIP, _BYTES)
        },
    },
}
_PDF = "application/pdf"
_PDF_FILE: Responses = {
    **problems(404, 503),
    200: {
        "description": "The report.",
        "content": {
            media_type: {"schema": {"type": "string", "format": "binary"}}
            for media_type in (_PDF, _BYTES)
        },
    },
}
_MODEL: Responses = {
    **problems(404, 409),
    200: {
        "description": "The hypotheses.",
        "content": {SAFETENSORS: {"schema": {"type": "string", "format": "binary"}}},
    },
}
_HTML = {"text/html": {"schema": {"type": "string"}}}


def _schema(one: ReportReading) -> dict[str, Any] | None:
    if one.schema is None:
        return None
    return schema_of(one.schema) if isinstance(one.schema, type) else dict(one.schema)


_FORMS = [
    schema_of(ReportDocument),
    *(schema for one in READINGS.values() if (schema := _schema(one)) is not None),
]
_READINGS: dict[str, dict[str, Any]] = {
    "application/json": {"schema": {"anyOf": _FORMS}},
    "text/markdown": {"schema": {"type": "string"}},
}


def _responses(content: dict[str, dict[str, Any]]) -> Responses:
    return {**problems(404), 200: {"description": "The report.", "content": content}}


@router.get("/report", response_class=Response, responses=_responses({**_READINGS, **_HTML}))
def get_report(
    experiment_id: str,
    caller: ReportsReader,
    resources: Shared,
    accept: Accept,
    name: Annotated[ReadingName | None, Query(alias="reading")] = None,
) -> Response:
    """The report of a finished experiment, as JSON or as a page, by the header Accept.

    A `reading` has a form of its own, whatever is accepted: JSON, and Markdown for a model card.
    """
    if name is not None:
        return _reading(resources, caller, experiment_id, name)
    if preferred(accept, ("application/json", "text/html")) == "text/html":
        return stored_page(resources.database, caller, experiment_id)
    return _document(resources, caller, experiment_id)


@router.get("/report.json", response_class=Response, responses=_responses(_JSON))
def get_report_document(experiment_id: str, caller: ReportsReader, resources: Shared) -> Response:
    """The report as JSON, as it was stored."""
    return _document(resources, caller, experiment_id)


@router.get("/report.html", response_class=Response, responses=_responses(_HTML))
def get_report_page(experiment_id: str, caller: ReportsReader, resources: Shared) -> Response:
    """The report as one page without scripts."""
    return stored_page(resources.database, caller, experiment_id)


@router.get("/report.pdf", response_class=Response, responses=_PDF_FILE)
def get_report_pdf(experiment_id: str, caller: ReportsReader, resources: Shared) -> Response:
    """The report as a PDF file. It is printed when first asked for, which may take some seconds."""
    pdf, digest = stored_pdf(resources, caller, experiment_id)
    headers = {
        "ETag": f'"{digest}"',
        "Content-Disposition": f'attachment; filename="{experiment_id}-report.pdf"',
    }
    return Response(pdf, media_type=_PDF, headers=headers)


@router.get("/report/verification", responses=problems(404))
def verify_report(experiment_id: str, caller: ReportsReader, resources: Shared) -> Verification:
    """Checks the report against the stored ledger: digests, chain, counts and hashes anew."""
    return verification_of(resources.database, caller, experiment_id)


@router.get("/bundle", response_class=StreamingResponse, responses=_BUNDLE)
def get_bundle(
    experiment_id: str, caller: LedgerReader, resources: Shared, accept: Accept
) -> StreamingResponse:
    """Everything that `fedaudit verify` needs, in a zip file: report, ledger, checkpoints, keys.

    Also of an experiment that failed or was cancelled, then without a report.
    """
    with resources.database.read() as session:
        experiment = find_experiment(session, caller, experiment_id)
        chunks = bundle_of(resources.database, session, experiment)
    note_export(resources, caller, experiment.id, "bundle")
    name = f'attachment; filename="{experiment.id}-bundle.zip"'
    return StreamingResponse(
        chunks, media_type=preferred(accept, (_ZIP, _BYTES)), headers={"Content-Disposition": name}
    )


@router.get("/model", response_class=StreamingResponse, responses=_MODEL)
def get_model(experiment_id: str, caller: ReportsReader, resources: Shared) -> StreamingResponse:
    """The trained hypotheses that the report's figures are of, as safetensors.

    409 where they may not leave: where no proven guarantee covers them, or its noise was simulated.
    The detail says which, and what to change in the spec; the report says the same.
    """
    return model_response(stored_model(resources, caller, experiment_id))


@router.get("/model-layout", responses=problems(404, 409))
def get_model_layout(
    experiment_id: str, caller: FederationsReader, resources: Shared
) -> dict[str, Any]:
    """What goes into the trained model and comes out: features, scales and classes, in order.

    Confidential: it states which classes and columns the data have. What of it is declared in the
    spec is in the model's file too. 409 where the model may not leave.
    """
    return stored_layout(resources, caller, experiment_id)


def _document(resources: Resources, caller: Caller, experiment_id: str) -> Response:
    with resources.database.read() as session:
        report = find_report(session, caller, experiment_id)
    return JSONResponse(report.document, headers={"ETag": f'"{report.report_hash}"'})


def _reading(
    resources: Resources, caller: Caller, experiment_id: str, name: ReadingName
) -> Response:
    with resources.database.read() as session:
        judged = find_judged(session, caller, experiment_id)
    found = reading(judged, name)
    if isinstance(found, str):
        return Response(found, media_type="text/markdown")
    return JSONResponse(found)
