"""Reports of declared ledgers, their bundles, and whether they agree with what is stored."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import not_found
from api.schemas.experiment_tables import Check, Verification
from api.services.ledgers.ledger_disclosure import shown_group_size
from api.services.ledgers.ledger_opening import find_ledger
from api.services.ledgers.round_declarations import declarations_check
from api.services.lookups import refuse_while_erasing
from api.services.report_evidence import (
    RowSource,
    distinct_names,
    leaked_keys,
    readable_keys,
    readable_rows,
    stored_rows,
)
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.bundle import BundleParts, Evidence, Fault, bundle_chunks
from fedaudit.ledger.chain import ledger_hash
from fedaudit.reports.assemble import report_hash
from fedaudit.reports.declared.declared_material import DeclaredMaterial
from fedaudit.reports.declared.declared_report import declared_report
from fedaudit.reports.declared.stored_material import (
    stored_drawn,
    stored_histories,
    stored_material,
)
from fedaudit.reports.document.checks import Check as Found
from fedaudit.reports.document.checks import check, unchecked, value_at
from fedaudit.reports.verification.verification import ALTERED, verify
from models.clock import utc_now
from models.repositories import (
    DeclaredEntryRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
    ErasureRepository,
    SigningKeyRepository,
)
from models.tables.declared_ledgers import DeclaredLedger


@dataclass(frozen=True)
class LedgerReport:
    """A report and what it covers."""

    document: dict[str, Any]
    report_hash: str
    entries: int
    ledger: DeclaredLedger


def report_of(resources: Resources, caller: Caller, ledger_id: str) -> LedgerReport:
    """The signed report where it covers all rounds, or one made now, without a signature.

    One that shows smaller groups than are allowed by now is not shown again. Raises ProblemError
    where the caller's project has no such ledger.
    """
    with resources.database.read() as session:
        row = find_ledger(session, caller, ledger_id)
        signed = _signed(session, row)
        whole = signed is not None and signed.entries == row.entries
        if signed is not None and whole and _may_be_shown(resources, session, signed):
            return signed
    found, material = _read(resources, caller, ledger_id)
    # Outside of any transaction: figures may take seconds.
    document = declared_report(material)
    return LedgerReport(document, report_hash(document), found.entries, found)


def ledger_bundle(resources: Resources, caller: Caller, ledger_id: str) -> Iterator[bytes]:
    """The bytes of a ledger's bundle: what the newest signed report covers, or else all of it.

    Without that report, if it shows smaller groups than are allowed by now. Raises ProblemError
    where the caller's project has no such ledger.
    """
    found = _newest_signed(resources, caller, ledger_id) or report_of(resources, caller, ledger_id)
    evidence = _evidence(resources, found)
    with resources.database.read() as session:
        shown = _may_be_shown(resources, session, found)
    parts = BundleParts(
        experiment_id=evidence.experiment_id,
        spec=evidence.spec,
        names=evidence.names,
        report=evidence.report if shown else None,
        checkpoints=evidence.checkpoints,
        erased=evidence.erased,
        keys=evidence.keys,
        compromised=evidence.compromised,
    )
    rows = stored_rows(resources.database, _source(found))
    return bundle_chunks(parts, islice(rows, found.entries))


def verify_ledger(resources: Resources, caller: Caller, ledger_id: str) -> Verification:
    """The stored ledger, checked anew. Raises ProblemError as above."""
    found = _newest_signed(resources, caller, ledger_id) or report_of(resources, caller, ledger_id)
    more = [
        check(
            "report.hash",
            report_hash(found.document) == found.report_hash,
            good="the report is the one that was stored",
            bad="the report was altered after it was stored",
        )
    ]
    more.append(_declarations(resources, found.ledger))
    waiting = found.ledger.entries - found.entries
    if waiting:
        more.append(unchecked("ledger.waiting", f"{waiting} entries wait for their signature"))
    result = verify(_evidence(resources, found), more=more)
    integrity = value_at(found.document, "integrity") or {}
    return Verification(
        experiment_id=ledger_id,
        valid=result.verdict != ALTERED,
        verdict=result.verdict,
        checks=[
            Check(name=one.name, outcome=one.outcome, detail=one.detail) for one in result.checks
        ],
        entries=result.entries,
        ledger_hash=result.ledger_hash,
        chain_head=result.chain_head,
        signature=integrity.get("signature"),
        key_id=integrity.get("key_id"),
        reasons=integrity.get("reasons") or {},
    )


def _declarations(resources: Resources, ledger: DeclaredLedger) -> Found:
    with resources.database.read() as session:
        erased = ErasureRepository(session, ledger.project_id).statement(ledger.id) is not None
    if erased:
        why = "counts of groups and who took part were erased with the clients' names"
        return unchecked("ledger.declarations", why)
    return declarations_check(resources, ledger)


def _newest_signed(resources: Resources, caller: Caller, ledger_id: str) -> LedgerReport | None:
    with resources.database.read() as session:
        return _signed(session, find_ledger(session, caller, ledger_id))


def _signed(session: Session, row: DeclaredLedger) -> LedgerReport | None:
    stored = DeclaredPartRepository(session, row.project_id).report(row.id)
    if stored is None:
        return None
    return LedgerReport(stored.document, stored.report_hash, stored.entries, row)


def _may_be_shown(resources: Resources, session: Session, report: LedgerReport) -> bool:
    """Not where a floor or a policy has become stricter than what the report was made by."""
    row = report.ledger
    by = value_at(report.document, "ledger", "minimum_group_size")
    applied = by if isinstance(by, int) else int(row.terms["minimum_group_size"])
    return applied >= shown_group_size(resources, session, row.project_id, row.federation_id)


def _read(
    resources: Resources, caller: Caller, ledger_id: str
) -> tuple[DeclaredLedger, DeclaredMaterial]:
    """A ledger as it stands; its lock keeps rounds out while what they overwrite is read."""
    with resources.database.write() as session:
        row = DeclaredLedgerRepository(session, caller.project_id).lock(ledger_id)
        if row is None:
            raise not_found("ledger")
        parts = DeclaredPartRepository(session, row.project_id)
        tallies, reservations = parts.tallies(row.id), parts.reservations(row.id)
        least = shown_group_size(resources, session, row.project_id, row.federation_id)
    with resources.database.read() as session:
        parts, entries = (
            DeclaredPartRepository(session, row.project_id),
            DeclaredEntryRepository(session, row.project_id),
        )
        return row, stored_material(
            row.id,
            row.terms,
            histories=stored_histories(row.names, tallies),
            drawn=stored_drawn(row.drawn_names, row.drawn_counts),
            rounds=parts.rounds(row.id, upto=row.last_round),
            reservations=reservations,
            first_declaration=entries.first_declaration(row.id),
            least_group_size=least,
            entries=row.entries,
            ledger_hash=ledger_hash(
                one for one in entries.digests(row.id) if one[0] <= row.last_round
            ),
            chain_head=bytes(row.head),
            now=utc_now(),
            key_id=None,
            witness=None,
        )


def _evidence(resources: Resources, found: LedgerReport) -> Evidence:
    row, faults = found.ledger, list[Fault]()
    with resources.database.read() as session:
        refuse_while_erasing(session, row.project_id, row.id, federation_id=row.federation_id)
        erased = ErasureRepository(session, row.project_id).statement(row.id)
        keys = SigningKeyRepository(session).list()
        envelopes = DeclaredPartRepository(session, row.project_id).envelopes(row.id)
    return Evidence(
        experiment_id=row.id,
        spec=row.terms,
        names=distinct_names(row.names, faults),
        report=found.document,
        checkpoints=envelopes,
        erased=erased,
        keys=readable_keys([key.public_key for key in keys], faults),
        compromised=leaked_keys(keys),
        rows=islice(readable_rows(resources.database, _source(found)), found.entries),
        faults=faults,
    )


def _source(found: LedgerReport) -> RowSource:
    return RowSource(DeclaredEntryRepository, found.ledger.id, found.ledger.project_id)
