"""Audit reports, and whether they still agree with what is stored."""

from fastapi import APIRouter
from starlette.responses import HTMLResponse, JSONResponse, Response

from api.negotiation import Accept, preferred
from api.openapi import Responses, problems, schema_of
from api.resources import Resources, Shared
from api.schemas.records import Verification
from api.security import Caller, ReportsReader
from api.services.lookups import find_experiment, find_report
from api.services.verification import verify
from fedaudit.reports.document import Report as ReportDocument
from models.repositories import SubjectSetRepository

router = APIRouter(prefix="/experiments/{experiment_id}", tags=["reports"])

_PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_JSON = {"application/json": {"schema": schema_of(ReportDocument)}}
_HTML = {"text/html": {"schema": {"type": "string"}}}


def _responses(content: dict[str, dict[str, dict[str, str]]]) -> Responses:
    return {**problems(404), 200: {"description": "The report.", "content": content}}


@router.get("/report", response_class=Response, responses=_responses({**_JSON, **_HTML}))
def get_report(
    experiment_id: str, caller: ReportsReader, resources: Shared, accept: Accept
) -> Response:
    """The report of a finished experiment, as JSON or as a page."""
    if preferred(accept, ("application/json", "text/html")) == "text/html":
        return _page(resources, caller, experiment_id)
    return _document(resources, caller, experiment_id)


@router.get("/report.json", response_class=Response, responses=_responses(_JSON))
def get_report_document(experiment_id: str, caller: ReportsReader, resources: Shared) -> Response:
    """The report as JSON, as it was stored."""
    return _document(resources, caller, experiment_id)


@router.get("/report.html", response_class=Response, responses=_responses(_HTML))
def get_report_page(experiment_id: str, caller: ReportsReader, resources: Shared) -> Response:
    """The report as one page without scripts."""
    return _page(resources, caller, experiment_id)


@router.get("/report/verification", responses=problems(404))
def verify_report(experiment_id: str, caller: ReportsReader, resources: Shared) -> Verification:
    """Checks the report against the stored ledger: digests, chain, counts and hashes anew."""
    with resources.database.read() as session:
        experiment = find_experiment(session, caller, experiment_id)
        report = find_report(session, caller, experiment_id)
        names = SubjectSetRepository(session).names(experiment.subject_set_id)
    return verify(resources.database, experiment, report, names)


def _document(resources: Resources, caller: Caller, experiment_id: str) -> Response:
    with resources.database.read() as session:
        report = find_report(session, caller, experiment_id)
    return JSONResponse(report.document, headers={"ETag": f'"{report.report_hash}"'})


def _page(resources: Resources, caller: Caller, experiment_id: str) -> Response:
    # Only now: templates are not needed by most calls.
    from fedaudit.reports.html import render

    with resources.database.read() as session:
        report = find_report(session, caller, experiment_id)
    headers = {"Content-Security-Policy": _PAGE_POLICY}
    return HTMLResponse(render(report.document), headers=headers)
