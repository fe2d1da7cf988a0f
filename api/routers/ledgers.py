"""Ledgers of trainings that run elsewhere: their rounds are declared here, and leave reports."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from starlette.responses import JSONResponse, StreamingResponse

from api.http.answers import HTML, JSON, PDF, ZIP, Accept, Appendix, as_file, json_answer, preferred
from api.http.bodies import JsonBody, validated
from api.openapi import BUNDLE, PAGE, PDF_FILE, contents, located, problems, request_body, schema_of
from api.routers.experiment_tables import LEDGER_FILE, asked_form, ledger_page
from api.schemas.base import IdempotencyHeader, PageParameters
from api.schemas.experiment_tables import (
    DeclaredLedgerList,
    LedgerBody,
    LedgerFilters,
    LedgerPage,
    LedgerParameters,
    PostedRounds,
    ReservationBody,
    Verification,
)
from api.services.audit_log import note_export
from api.services.dispatch import IdempotentRequest
from api.services.ledgers.round_posting import post_rounds
from api.services.ledgers.round_reservation import release_round, reserve_round
from api.services.ledgers.stored_ledgers import (
    find_ledger,
    ledger_bundle,
    open_ledger,
    posted_round,
    report_of,
    shown_ledger,
    summary,
    verify_ledger,
)
from api.services.lookups import list_page
from api.services.report_pages import page_response
from api.services.tables import Form, LedgerTable, export
from api.shared.security import (
    Call,
    ExperimentsReader,
    ExperimentsWriter,
    LedgerReader,
    ReportsReader,
)
from fedaudit.reports.declared.declared_report import DeclaredReport
from fedaudit.reports.page.html import render_declared
from fedaudit.spec.declared_ledgers import MAX_ROUND, LedgerTerms, ReservationRequest, RoundsRequest
from models.repositories import DeclaredLedgerRepository

router = APIRouter(prefix="/ledgers", tags=["ledgers"])

Number = Annotated[int, Path(ge=1, le=MAX_ROUND, description="The round.")]


@router.post(
    "",
    status_code=201,
    responses=problems(409, 415) | located(201, "A new ledger.", "ledger"),
    openapi_extra=request_body(LedgerTerms),
)
def create_ledger(
    call: ExperimentsWriter,
    value: JsonBody,
    response: Response,
    idempotency_key: IdempotencyHeader = None,
) -> LedgerBody:
    """Open a ledger for a training that runs elsewhere, such as in Flower or under Opacus.

    Its terms say what every figure is a figure of, and never change. All that it states is as the
    trainer declares it.
    """
    terms = validated(LedgerTerms, value)
    idempotency = IdempotentRequest.of(idempotency_key, "POST /v1/ledgers", value)
    made = open_ledger(call, terms, idempotency)
    response.headers["Location"] = f"/v1/ledgers/{made.id}"
    return shown_ledger(call, made.id)


@router.get("", responses=problems())
def list_ledgers(
    call: ExperimentsReader, parameters: Annotated[PageParameters, Query()]
) -> DeclaredLedgerList:
    """The project's ledgers, newest first."""
    with call.reading() as session:
        rows = DeclaredLedgerRepository(session, call.project_id).list
        return list_page(DeclaredLedgerList, "ledgers", parameters, rows, partial(map, summary))


@router.get("/{ledger_id}", responses=problems(404))
def get_ledger(ledger_id: str, call: ExperimentsReader) -> LedgerBody:
    """One ledger, and what its rounds come to."""
    return shown_ledger(call, ledger_id)


@router.post(
    "/{ledger_id}/rounds",
    responses=problems(404, 409, 415),
    openapi_extra=request_body(RoundsRequest),
)
def declare_rounds(ledger_id: str, call: ExperimentsWriter, value: JsonBody) -> PostedRounds:
    """Declare rounds that ran: all of them are entered, or none.

    Numbers ascend and may leave gaps, which stay on record. The same round with the same content
    changes nothing and is answered alike; with another content it is refused.
    """
    terms, rows = post_rounds(call, ledger_id, value)
    return PostedRounds(ledger_id=ledger_id, rounds=[posted_round(terms, row) for row in rows])


@router.post(
    "/{ledger_id}/rounds/{number}/reservation",
    response_model=ReservationBody,
    responses=problems(404, 409, 415),
    openapi_extra=request_body(ReservationRequest),
)
def reserve_declared_round(
    ledger_id: str, number: Number, call: ExperimentsWriter, value: JsonBody
) -> Response:
    """Ask, before anybody trains, whether a round may run, and with whom.

    What is admitted is held until the round is declared, for a day at most, and replaces what was
    held for the same round.
    """
    return json_answer(reserve_round(call, ledger_id, number, value))


@router.delete("/{ledger_id}/rounds/{number}/reservation", status_code=204, responses=problems(404))
def release_reservation(ledger_id: str, number: Number, call: ExperimentsWriter) -> None:
    """Give back what is held for a round that will not run."""
    release_round(call, ledger_id, number)


_REPORT = contents("The report.", JSON, schema_of(DeclaredReport), 404)


@router.get("/{ledger_id}/privacy-ledger", response_model=LedgerPage, responses=problems(404))
def list_declared_entries(
    *,
    ledger_id: str,
    call: LedgerReader,
    parameters: Annotated[LedgerParameters, Query()],
    accept: Accept,
) -> Response:
    """What each declared round cost each client."""
    form = asked_form(accept)
    if form is not None:
        return export_declared_entries(ledger_id, form, call, parameters)
    table = partial(_table, call, ledger_id, parameters)
    return ledger_page(call.resources, "declared-ledger", parameters, table)


@router.get(
    "/{ledger_id}/privacy-ledger.{form}", response_class=StreamingResponse, responses=LEDGER_FILE
)
def export_declared_entries(
    ledger_id: str, form: Form, call: LedgerReader, filters: Annotated[LedgerFilters, Query()]
) -> Response:
    """What each declared round cost each client, as a file of all that the filters let through."""
    table = _table(call, ledger_id, filters)
    note_export(call, ledger_id, form)
    name = f"{ledger_id}-privacy-ledger"
    return export(table, call.resources.database, what="ledger", form=form, file_name=name)


@router.get("/{ledger_id}/report", response_class=Response, responses=_REPORT)
def get_ledger_report(ledger_id: str, call: ReportsReader, accept: Accept) -> Response:
    """The report, signed within seconds of a round."""
    as_page = preferred(accept, (JSON, HTML)) == HTML
    form = get_ledger_report_page if as_page else get_ledger_report_document
    return form(ledger_id, call)


@router.get("/{ledger_id}/report.json", response_class=Response, include_in_schema=False)
def get_ledger_report_document(ledger_id: str, call: ReportsReader) -> Response:
    """The report as JSON."""
    return JSONResponse(report_of(call, ledger_id).document)


@router.get("/{ledger_id}/report.html", response_class=Response, responses=PAGE)
def get_ledger_report_page(ledger_id: str, call: ReportsReader) -> Response:
    """The report as one page without scripts."""
    return page_response(render_declared(report_of(call, ledger_id).document))


@router.get("/{ledger_id}/report.pdf", response_class=Response, responses=PDF_FILE)
def get_ledger_report_pdf(
    ledger_id: str, call: ReportsReader, *, appendix: Appendix = False
) -> Response:
    """The report as a PDF file of at most 3 pages, and longer with its appendix."""
    page = render_declared(report_of(call, ledger_id).document, appendix=appendix)
    return as_file(call.resources.printer.pdf(page), f"{ledger_id}-report.pdf", PDF)


@router.get("/{ledger_id}/report/verification", responses=problems(404))
def verify_ledger_report(ledger_id: str, call: ReportsReader) -> Verification:
    """Checks the report against the stored entries: digests, chain, epsilons and hashes anew.

    `experiment_id` of the answer is the ledger's.
    """
    return verify_ledger(call, ledger_id)


@router.get("/{ledger_id}/bundle", response_class=StreamingResponse, responses=BUNDLE)
def get_ledger_bundle(ledger_id: str, call: LedgerReader) -> Response:
    """Everything that `fedaudit verify` needs, in a zip file: report, entries, checkpoints, keys.

    Up to the newest signed report.
    """
    chunks = ledger_bundle(call, ledger_id)
    note_export(call, ledger_id, "bundle")
    return as_file(chunks, f"{ledger_id}-bundle.zip", ZIP)


def _table(call: Call, ledger_id: str, filters: LedgerFilters) -> LedgerTable:
    with call.reading() as session:
        found = find_ledger(session, call.caller, ledger_id)
    return LedgerTable(call.project_id, found.id, found.names, filters)
