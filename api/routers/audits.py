"""Audits of predictions: requested, found, reported, bundled and verified."""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal

from anyio.to_thread import run_sync
from fastapi import Query, Response
from sqlalchemy.orm import Session
from starlette.responses import JSONResponse

from api import openapi
from api.http import answers
from api.http.problems import ProblemError
from api.schemas.base import PageParameters, of_row
from api.schemas.reports import AuditBody, AuditPage, AuditVerification
from api.services.admission import not_registered
from api.services.budgets import refuse_exact_figures
from api.services.disclosure import floor_of, refuse_by_policies, refuse_hiding, registration_of
from api.services.dispatch import Queued, Submission, Submitting
from api.services.lookups import finder, list_page, note
from api.services.report_evidence import (
    found_in,
    leaked_keys,
    readable_keys,
    stored_report_check,
    stored_spec_check,
)
from api.services.report_pages import page_response
from api.shared.data_faults import reads_data, shown_faults
from api.shared.federation_data import ready_federation, refuse_erased
from api.shared.security import Call, Caller, ExperimentsReader, ReportsReader
from fedaudit.ledger.bundle import Evidence, Fault, bundle_chunks
from fedaudit.reports.audit_report import NOT_VERIFIED, AuditReport
from fedaudit.reports.checks import Check, value_at
from fedaudit.reports.page.html import render
from fedaudit.reports.readings.readings import ImpactRatioReading, reading
from fedaudit.reports.sections.predictions import as_report_of_run
from fedaudit.reports.verification.verification import ALTERED, verify
from fedaudit.spec.audits import (
    AuditSpec,
    floor_faults_of_audit,
    in_audit,
    parse_audit,
    policy_faults,
    registered_use_faults,
)
from fedaudit.spec.errors import InvalidInputError, raise_errors
from models.repositories import (
    AuditRepository,
    FederationRepository,
    SigningKeyRepository,
    UnitRepository,
)
from models.tables.experiments import PredictionAudit
from models.values import new_id, utc_now

router = openapi.Router(prefix="/audits", tags=["audits"])

_find_audit = finder(AuditRepository, "audit")
_REPORT = openapi.contents("The report.", answers.JSON, openapi.schema_of(AuditReport))
_READING = openapi.contents("The reading.", answers.JSON, openapi.schema_of(ImpactRatioReading))
AuditReading = Literal["impact-ratio"]


@router.post(
    "",
    status_code=202,
    responses=openapi.problems(409) | openapi.located(202, "To be made by a worker.", "audit"),
    openapi_extra=openapi.request_body(AuditSpec),
)
async def create_audit(call: Submitting) -> AuditBody:
    """Ask for an audit of the predictions in a table. Nothing is trained.

    The table is below the sources folder (`path`), or is a federation's file (`id`). The audit's
    `errors` state what does not fit once a worker has read it.
    """
    # The file is read to its end for its hash, which may take as long as loading it.
    asked = await call.run(partial(_queued, call))
    row = call.accepting.of(call, asked, f"/v1/audits/{asked.row.id}")
    return await run_sync(partial(audit_body, row, caller=call.caller))


@router.get("")
def list_audits(call: ExperimentsReader, parameters: PageParameters) -> AuditPage:
    """The project's audits, newest first."""
    with call.reading() as session:
        rows = AuditRepository(session, call.project_id).list
        bodies = partial(map, partial(audit_body, caller=call.caller))
        return list_page(AuditPage, "audits", parameters, rows, bodies)


@router.get("/{audit_id}")
def get_audit(audit_id: str, call: ExperimentsReader) -> AuditBody:
    """One audit: its status, and what to correct where it failed."""
    return audit_body(call.find(_find_audit, audit_id), caller=call.caller)


@router.get("/{audit_id}/report", responses=_REPORT)
def get_audit_report(
    audit_id: str,
    call: ReportsReader,
    accept: answers.Accept,
    name: Annotated[AuditReading | None, Query(alias="reading", include_in_schema=False)] = None,
) -> Response:
    """The report of an audit, as it was stored."""
    if name is not None:
        answer = get_audit_impact_ratios(audit_id, call)
        answer.headers.update(answers.earlier_name(f"report/readings/{name}"))
        return answer
    as_page = answers.preferred(accept, (answers.JSON, answers.HTML)) == answers.HTML
    return (get_audit_page if as_page else get_audit_document)(audit_id, call)


@router.get("/{audit_id}/report/readings/impact-ratio", responses=_READING)
def get_audit_impact_ratios(audit_id: str, call: ReportsReader) -> Response:
    """The report's impact ratios; the other readings are of trainings."""
    report = audit_report(call, audit_id)
    as_of_run = as_report_of_run(report, parse_audit(report["spec"]))
    return JSONResponse(reading(as_of_run, "impact-ratio"))


@router.get("/{audit_id}/report.json", include_in_schema=False)
def get_audit_document(audit_id: str, call: ReportsReader) -> Response:
    """The report as JSON, as it was stored."""
    return JSONResponse(audit_report(call, audit_id))


@router.get("/{audit_id}/report.html", responses=openapi.PAGE)
def get_audit_page(audit_id: str, call: ReportsReader) -> Response:
    """The report as one page without scripts."""
    return page_response(render(audit_report(call, audit_id)))


@router.get("/{audit_id}/report.pdf", responses=openapi.PDF_FILE)
def get_audit_pdf(
    audit_id: str, call: ReportsReader, *, appendix: answers.Appendix = False
) -> Response:
    """The report as a PDF file of at most 3 pages, and longer with its appendix."""
    page = render(audit_report(call, audit_id), appendix=appendix)
    return answers.as_file(call.resources.printer.pdf(page), f"{audit_id}-report.pdf", answers.PDF)


@router.get("/{audit_id}/report/verification")
def verify_audit_report(audit_id: str, call: ReportsReader) -> AuditVerification:
    """Check the report: its signature, and all that follows from its published figures.

    `not_verified` lists what no check can verify: the rows are not kept.
    """
    try:
        with call.reading() as session:
            row = _find_audited(session, call.caller, audit_id)
            evidence = _evidence(session, row)
    except ValueError:
        # SQLite keeps JSON as text: a single changed byte can make it invalid.
        why = "what is stored of the audit is no JSON any more: it was altered"
        return AuditVerification(
            audit_id=audit_id,
            valid=False,
            verdict=ALTERED,
            checks=[Check.failed("report.readable", why)],
            not_verified=list(NOT_VERIFIED),
            signature=None,
            key_id=None,
            reasons={"signature": why, "key_id": why},
        )
    # No key is trusted here: a service that vouches for its own keys proves nothing.
    found = verify(evidence, more=_columns(row))
    return AuditVerification(
        audit_id=row.id, not_verified=list(found.beyond), **found_in(row.report, found)
    )


@router.get("/{audit_id}/bundle", responses=openapi.BUNDLE)
def get_audit_bundle(audit_id: str, call: ReportsReader) -> Response:
    """Everything that `fedaudit verify` needs, in a zip file: report, spec and public keys.

    It holds nothing beyond the report.
    """
    with call.reading() as session:
        evidence = _evidence(session, _find_audited(session, call.caller, audit_id))
    chunks = bundle_chunks(evidence, ())
    return answers.as_file(chunks, f"{audit_id}-bundle.zip", answers.ZIP)


def audit_body(row: PredictionAudit, *, caller: Caller) -> AuditBody:
    """One audit as the caller may see it."""
    faults = shown_faults(row.faults, caller=caller)
    return of_row(AuditBody, row, errors=faults, data_fingerprint=row.fingerprint)


def _find_audited(session: Session, caller: Caller, audit_id: str) -> PredictionAudit:
    """An audit with a report. Raises ProblemError where there is none."""
    found = _find_audit(session, caller, audit_id)
    if found.report is None:
        raise ProblemError("not-found", f"the audit has no report: it is {found.status}")
    return found


def audit_report(call: Call, audit_id: str) -> dict[str, Any]:
    """The report of an audit, as it was stored. Raises ProblemError where there is none."""
    return call.find(_find_audited, audit_id).report or {}


def _queued(call: Submission) -> Queued[PredictionAudit]:
    """Queue the audit that a JSON value asks for. Raises InvalidInputError, ProblemError."""
    if (earlier := call.idempotency.before(call, _find_audit)) is not None:
        return earlier
    audit = parse_audit(call.value)
    raise_errors(floor_faults_of_audit(floor_of(call.resources.settings), audit))
    try:
        fingerprint = _fingerprint(call, audit)
        if audit.gates:
            refuse_hiding(call, fingerprint, audit.fairness)
    except InvalidInputError as error:
        raise InvalidInputError(in_audit(error.errors)) from None
    with call.writing() as session:
        _check_policies(session, call, audit, fingerprint=fingerprint)
        attempts = call.resources.settings.max_attempts
        units = UnitRepository(session)
        unit = units.create(call.project_id, "auto", kind="audit", max_attempts=attempts)
        found = AuditRepository(session, call.project_id).store(
            PredictionAudit(
                id=new_id(),
                project_id=call.project_id,
                status="queued",
                name=audit.name,
                spec=audit.model_dump(mode="json"),
                spec_hash=audit.hash,
                fingerprint=fingerprint,
                scored=f"{audit.truth}\n{audit.predicted_by}",
                threshold=audit.threshold,
                unit_id=unit.id,
                created_by=vars(call.caller.actor),
                created_at=utc_now(),
            )
        )
        # The same request may come twice at once: refused if it differs, else harmless.
        call.idempotency.claimed_before(session, call.caller, found.id)
        about = {"fingerprint": fingerprint, "spec_hash": audit.hash}
        note(session, call.caller, "audit.queued", found.id, **about)
        return Queued(found, [unit])


def _fingerprint(call: Call, audit: AuditSpec) -> str:
    """The fingerprint of the data, which the caller may audit. Raises InvalidInputError."""
    reads, row = reads_data(call.caller), None
    with call.reading() as session:
        if audit.id is not None:
            row = ready_federation(session, call.project_id, audit.id)
        elif not reads:
            row = FederationRepository(session, call.project_id).registered_at(audit.path or "")
    if not reads:
        registration = None if row is None else registration_of(row)
        if registration is None:
            raise _not_registered(audit)
        raise_errors(registered_use_faults(audit, registration))
    if audit.id is not None and row is not None:
        return row.fingerprint
    with call.resources.open_source(call.project_id, str(audit.path)) as file:
        fingerprint = file.fingerprint
    if row is not None and fingerprint != row.fingerprint:
        # The registered file was replaced by another one.
        raise _not_registered(audit)
    return fingerprint


def _not_registered(audit: AuditSpec) -> InvalidInputError:
    return not_registered("/path" if audit.id is None else "/id", "ask for the audit")


def _check_policies(session: Session, call: Call, audit: AuditSpec, *, fingerprint: str) -> None:
    """Raises InvalidInputError where the audit departs from the policy of the project's federation,
    or of the content's owner, and ProblemError for data that were erased, or on which a total
    bounds what reports reveal. Where the project has such a federation, neither changes before the
    audit is queued; a budget that is set meanwhile elsewhere lists the audit."""
    budgets = call.budgets(session)
    known = budgets.hold(fingerprint=fingerprint)
    if known is not None:
        refuse_erased(known)
    owners = FederationRepository(session, call.project_id).of_owner(fingerprint)
    for row in filter(None, (known, owners)):
        refuse_exact_figures(budgets.of_project(row.project_id), row.id)
    refuse_by_policies((known, owners), policy_faults, audit)


def _evidence(session: Session, row: PredictionAudit) -> Evidence:
    faults = list[Fault]()
    keys = SigningKeyRepository(session).list()
    return Evidence(
        experiment_id=row.id,
        spec=row.spec,
        report=row.report,
        keys=readable_keys([key.public_key for key in keys], faults),
        compromised=leaked_keys(keys),
        faults=faults,
    )


def _columns(row: PredictionAudit) -> Iterator[Check]:
    """The checks that only the database's own columns allow."""
    yield stored_report_check(row.report or {}, row.report_hash)
    yield stored_spec_check("audit", row)
    fingerprint = value_at(row.report, "provenance", "data_fingerprint")
    shown = {
        "data_fingerprint": row.fingerprint == fingerprint,
        "gate_outcome": row.gate_outcome == value_at(row.report, "gate_outcome"),
    }
    wrong = [name for name, agrees in shown.items() if not agrees]
    yield Check.of(
        "audit.stored",
        not wrong,
        good="the columns of the audit's list agree with its report",
        bad=f"the list differs from the report in {', '.join(wrong)}",
    )
