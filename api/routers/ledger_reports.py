"""Reports of trainings that run elsewhere: signed within seconds of a round, verified, bundled."""

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from fastapi import Response
from sqlalchemy.orm import Session
from starlette.responses import JSONResponse

from api.http.answers import HTML, JSON, PDF, ZIP, Accept, Appendix, as_file, preferred
from api.http.problems import not_found
from api.openapi import BUNDLE, PAGE, PDF_FILE, Router, contents, schema_of
from api.routers.ledgers import find_ledger, shown_group_size
from api.schemas.base import of_row
from api.schemas.experiment_tables import Verification
from api.services.ledgers.round_posting import ledger_before
from api.services.lookups import note_export
from api.services.report_evidence import evidence_of, found_in, stored_report_check
from api.services.report_pages import page_response
from api.shared.ledger_states import AlteredEntriesError
from api.shared.resources import Resources
from api.shared.security import Call, LedgerReader, ReportsReader
from fedaudit.ledger.audit import Places
from fedaudit.ledger.bundle import Evidence, bundle_chunks
from fedaudit.ledger.declared import changed_rounds
from fedaudit.ledger.encoding import ledger_hash
from fedaudit.privacy.declared.figures import contradictions, drawn_clients
from fedaudit.reports.checks import Check, value_at
from fedaudit.reports.declared.declared_report import DeclaredReport, declared_report
from fedaudit.reports.declared.ledger_material import DeclaredMaterial
from fedaudit.reports.page.html import render
from fedaudit.reports.report import report_hash
from fedaudit.reports.verification.verification import verify
from models.repositories import (
    DeclaredLedgerRepository,
    DeclaredPartRepository,
    ErasureRepository,
    FederationRepository,
    LedgerRepository,
)
from models.repositories.ledger import stored_rows
from models.tables.ledger import DeclaredLedger
from models.values import utc_now

router = Router(prefix="/ledgers/{ledger_id}", tags=["ledgers"])

_REPORT = contents("The report.", JSON, schema_of(DeclaredReport))


@router.get("/report", responses=_REPORT)
def get_ledger_report(ledger_id: str, call: ReportsReader, accept: Accept) -> Response:
    """The report, signed within seconds of a round."""
    as_page = preferred(accept, (JSON, HTML)) == HTML
    form = get_ledger_report_page if as_page else get_ledger_report_document
    return form(ledger_id, call)


@router.get("/report.json", include_in_schema=False)
def get_ledger_report_document(ledger_id: str, call: ReportsReader) -> Response:
    """The report as JSON."""
    return JSONResponse(report_of(call, ledger_id).document)


@router.get("/report.html", responses=PAGE)
def get_ledger_report_page(ledger_id: str, call: ReportsReader) -> Response:
    """The report as one page without scripts."""
    return page_response(render(report_of(call, ledger_id).document))


@router.get("/report.pdf", responses=PDF_FILE)
def get_ledger_report_pdf(
    ledger_id: str, call: ReportsReader, *, appendix: Appendix = False
) -> Response:
    """The report as a PDF file of at most 3 pages, and longer with its appendix."""
    page = render(report_of(call, ledger_id).document, appendix=appendix)
    return as_file(call.resources.printer.pdf(page), f"{ledger_id}-report.pdf", PDF)


@router.get("/report/verification")
def verify_ledger_report(ledger_id: str, call: ReportsReader) -> Verification:
    """Checks the report against the stored entries: digests, chain, epsilons and hashes anew.

    `experiment_id` of the answer is the ledger's.
    """
    try:
        found = _newest(call, ledger_id)
    except AlteredEntriesError:
        row = call.find(find_ledger, ledger_id)
        found = LedgerReport({}, "", row.entries, row)
    more = [
        stored_report_check(found.document, found.report_hash),
        _declarations(call.resources, found.ledger),
    ]
    waiting = found.ledger.entries - found.entries
    if waiting:
        more.append(
            Check.unchecked("ledger.waiting", f"{waiting} entries wait for their signature")
        )
    verified = verify(_evidence(call.resources, found), more=more)
    return of_row(Verification, verified, **found_in(found.document, verified))


@router.get("/bundle", responses=BUNDLE)
def get_ledger_bundle(ledger_id: str, call: LedgerReader) -> Response:
    """Everything that `fedaudit verify` needs, in a zip file: report, entries, checkpoints, keys.

    Up to the newest signed report.
    """
    found = _newest(call, ledger_id)
    evidence, row = _evidence(call.resources, found), found.ledger
    if not _may_be_shown(call.resources, found):
        # It shows smaller groups than are allowed by now.
        evidence = replace(evidence, report=None)
    rows = stored_rows(call.resources.database, row.id, row.project_id)
    chunks = bundle_chunks(evidence, islice(rows, found.entries))
    note_export(call, ledger_id, "bundle")
    return as_file(chunks, f"{ledger_id}-bundle.zip", ZIP)


@dataclass(frozen=True)
class LedgerReport:
    """A report and what it covers."""

    document: dict[str, Any]
    report_hash: str
    entries: int
    ledger: DeclaredLedger


def report_of(call: Call, ledger_id: str) -> LedgerReport:
    """The signed report where it covers all rounds, or one made now, without a signature.

    One that shows smaller groups than are allowed by now, or lacks a contradiction that is found
    by now, is not shown again. Raises ProblemError where the caller's project has no such ledger.
    """
    found = _newest(call, ledger_id)
    is_newest = found.entries == found.ledger.entries
    if is_newest and _may_be_shown(call.resources, found) and not _lacks_some(call, found):
        return found
    return _made_now(call, ledger_id)


def _declarations(resources: Resources, ledger: DeclaredLedger) -> Check:
    """Whether each stored round up to the ledger's last is what the declaration of its entries
    says, what was reserved is what the round behind it says, and who was drawn is what the newest
    round says. Other checks cover that entries are as they were chained."""
    with resources.database.read() as session:
        if ErasureRepository(session, ledger.project_id).statement(ledger.id) is not None:
            why = "counts of groups and who took part were erased with the clients' names"
            return Check.unchecked("ledger.declarations", why)
        chained = LedgerRepository(session, ledger.project_id).declarations(ledger.id)
        parts = DeclaredPartRepository(session, ledger.project_id)
        declared = parts.rounds(ledger.id, upto=ledger.last_round)
        reserved = parts.reservations(ledger.id)
    wrong = Places()
    for changed in changed_rounds(
        declared,
        {number: one for number, one in chained.items() if number <= ledger.last_round},
        reserved=reserved,
        drawn=drawn_clients(ledger.drawn_names, ledger.drawn_counts),
        secret=ledger.secret or bytes(32),
    ):
        wrong.add(changed)
    return Check.of(
        "ledger.declarations",
        not wrong.count,
        good="counts of groups, and what else rounds declared, are what the chain holds",
        bad=f"not what was declared: {wrong}",
    )


def _newest(call: Call, ledger_id: str) -> LedgerReport:
    """The newest signed report, or one made now where there is none."""
    with call.reading() as session:
        row = find_ledger(session, call.caller, ledger_id)
        document, hashed = row.report, row.report_hash
    if document is None or hashed is None:
        return _made_now(call, ledger_id)
    return LedgerReport(document, hashed, row.signed_entries, row)


def _may_be_shown(resources: Resources, report: LedgerReport) -> bool:
    """Not where a floor or a policy has become stricter than what the report was made by."""
    row = report.ledger
    by = value_at(report.document, "ledger", "minimum_group_size")
    applied = by if isinstance(by, int) else int(row.terms["minimum_group_size"])
    with resources.database.read() as session:
        least = shown_group_size(resources, session, row.project_id, row.federation_id)
    return applied >= least


def _lacks_some(call: Call, report: LedgerReport) -> bool:
    """Whether it was made before a contradiction was looked for that is found by now."""
    state = None if report.document["contradictions"] else ledger_before(call, report.ledger.id)
    if state is None:
        return False
    with call.reading() as session:
        units = federation_units(session, report.ledger)
    return bool(contradictions(state.terms, state.histories, state.drawn, units))


def federation_units(session: Session, row: DeclaredLedger) -> int:
    federations = FederationRepository(session, row.project_id)
    return federations.units(row.federation_id, row.terms["unit"])


def _made_now(call: Call, ledger_id: str) -> LedgerReport:
    """The report of a ledger now. Its lock keeps out rounds while what they overwrite is read; most
    entries are read before."""
    ledger_before(call, ledger_id)
    with call.writing() as session:
        row = DeclaredLedgerRepository(session, call.project_id).lock(ledger_id)
        if row is None:
            raise not_found("ledger")
        state = call.resources.ledgers.locked(session, row)
        reservations = DeclaredPartRepository(session, row.project_id).reservations(row.id)
        least = shown_group_size(call.resources, session, row.project_id, row.federation_id)
        units = federation_units(session, row)
    now = utc_now()
    with call.reading() as session:
        entries = LedgerRepository(session, row.project_id)
        rounds = DeclaredPartRepository(session, row.project_id).rounds(row.id, upto=row.last_round)
        material = DeclaredMaterial(
            ledger_id=row.id,
            terms=state.terms,
            histories=state.histories,
            drawn=state.drawn,
            rounds=rounds,
            reservations=reservations,
            first_declaration=entries.first_declaration(row.id),
            least_group_size=least,
            federation_units=units,
            made_at=now,
            ledger_hash=ledger_hash(entries.digests(row.id, upto=row.last_round)),
            chain_head=state.head.hex(),
            entries=state.entries,
        )
    # Outside of any transaction: figures may take seconds.
    document = declared_report(material)
    return LedgerReport(document, report_hash(document), row.entries, row)


def _evidence(resources: Resources, found: LedgerReport) -> Evidence:
    stored = evidence_of(resources.database, found.ledger, found.document)
    return replace(stored, rows=islice(stored.rows, found.entries))
