"""Reports of declared ledgers, their bundles, and whether they agree with what is stored."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import not_found
from api.schemas.experiment_tables import Check, Verification
from api.services.base.subject_names import refuse_while_erasing
from api.services.ledgers.stored_ledgers import find_ledger, shown_group_size
from api.services.reports.stored_evidence import (
    RowSource,
    distinct_names,
    leaked_keys,
    readable_keys,
    readable_rows,
    stored_rows,
)
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.audit import Places
from fedaudit.ledger.bundle import Evidence, Fault, bundle_chunks
from fedaudit.ledger.chain import ledger_hash
from fedaudit.ledger.declared import changed_reservations, declaration_of, drawn_hash
from fedaudit.reports.assemble import report_hash
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

    @property
    def source(self) -> RowSource:
        """Where its entries are."""
        return RowSource(DeclaredEntryRepository, self.ledger.id, self.ledger.project_id)


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
    return _made_now(resources, caller, ledger_id)


def ledger_bundle(resources: Resources, caller: Caller, ledger_id: str) -> Iterator[bytes]:
    """The bytes of a ledger's bundle: what the newest signed report covers, or else all of it.

    Without that report, if it shows smaller groups than are allowed by now. Raises ProblemError
    where the caller's project has no such ledger.
    """
    found = _newest(resources, caller, ledger_id)
    evidence = _evidence(resources, found)
    with resources.database.read() as session:
        if not _may_be_shown(resources, session, found):
            evidence = replace(evidence, report=None)
    return bundle_chunks(
        evidence, islice(stored_rows(resources.database, found.source), found.entries)
    )


def verify_ledger(resources: Resources, caller: Caller, ledger_id: str) -> Verification:
    """The stored ledger, checked anew. Raises ProblemError as above."""
    found = _newest(resources, caller, ledger_id)
    more = [
        check(
            "report.hash",
            report_hash(found.document) == found.report_hash,
            good="the report is the one that was stored",
            bad="the report was altered after it was stored",
        ),
        _declarations(resources, found.ledger),
    ]
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
    """Whether each stored round up to the ledger's last is what the declaration of its entries
    says, what was reserved is what the round behind it says, and who was drawn is what the newest
    round says. Other checks cover that entries are as they were chained."""
    with resources.database.read() as session:
        if ErasureRepository(session, ledger.project_id).statement(ledger.id) is not None:
            why = "counts of groups and who took part were erased with the clients' names"
            return unchecked("ledger.declarations", why)
        chained = DeclaredEntryRepository(session, ledger.project_id).declarations(ledger.id)
        parts = DeclaredPartRepository(session, ledger.project_id)
        declared = parts.rounds(ledger.id, upto=ledger.last_round)
        reserved = parts.reservations(ledger.id)
    secret, wrong = ledger.secret or bytes(32), Places()
    for one in declared:
        stated = chained.get(one.round)
        if stated is not None and stated != declaration_of(one, secret):
            wrong.add(f"round {one.round}")
    missing = chained.keys() - {one.round for one in declared}
    for number in sorted(one for one in missing if one <= ledger.last_round):
        wrong.add(f"round {number}, which is missing")
    for number in changed_reservations(declared, reserved, secret):
        wrong.add(f"what was reserved before round {number}")
    said = next((one.drawn for one in reversed(declared) if one.drawn is not None), None)
    drawn = stored_drawn(ledger.drawn_names, ledger.drawn_counts)
    if said is not None and said != drawn_hash(drawn, secret):
        wrong.add("those who were drawn")
    return check(
        "ledger.declarations",
        not wrong.count,
        good="counts of groups, and what else rounds declared, are what the chain holds",
        bad=f"not what was declared: {wrong}",
    )


def _newest(resources: Resources, caller: Caller, ledger_id: str) -> LedgerReport:
    """The newest signed report, or one made now where there is none."""
    with resources.database.read() as session:
        signed = _signed(session, find_ledger(session, caller, ledger_id))
    return signed or _made_now(resources, caller, ledger_id)


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


def _made_now(resources: Resources, caller: Caller, ledger_id: str) -> LedgerReport:
    """Of a ledger as it is; its lock keeps rounds out while what they overwrite is read."""
    with resources.database.write() as session:
        row = DeclaredLedgerRepository(session, caller.project_id).lock(ledger_id)
        if row is None:
            raise not_found("ledger")
        parts = DeclaredPartRepository(session, row.project_id)
        tallies, reservations = parts.tallies(row.id), parts.reservations(row.id)
        least = shown_group_size(resources, session, row.project_id, row.federation_id)
    with resources.database.read() as session:
        entries = DeclaredEntryRepository(session, row.project_id)
        digests = [one for one in entries.digests(row.id) if one[0] <= row.last_round]
        parts = DeclaredPartRepository(session, row.project_id)
        material = stored_material(
            row.id,
            row.terms,
            histories=stored_histories(row.names, tallies),
            drawn=stored_drawn(row.drawn_names, row.drawn_counts),
            rounds=parts.rounds(row.id, upto=row.last_round),
            reservations=reservations,
            first_declaration=entries.first_declaration(row.id),
            least_group_size=least,
            entries=row.entries,
            ledger_hash=ledger_hash(digests),
            chain_head=bytes(row.head),
            now=utc_now(),
            key_id=None,
            witness=None,
        )
    # Outside of any transaction: figures may take seconds.
    document = declared_report(material)
    return LedgerReport(document, report_hash(document), row.entries, row)


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
        rows=islice(readable_rows(resources.database, found.source), found.entries),
        faults=faults,
    )
