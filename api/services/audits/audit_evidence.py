"""Bundles of audits of predictions, and whether their reports agree with what is stored."""

from collections.abc import Iterator

from sqlalchemy.orm import Session

from api.schemas.experiment_tables import Check
from api.schemas.reports import AuditVerification
from api.services.audits.audit_lookups import find_audited
from api.services.reports.stored_evidence import leaked_keys, readable_keys
from api.shared.security import Caller
from fedaudit.ledger.bundle import BundleParts, Evidence, Fault, bundle_chunks
from fedaudit.reports.document.checks import Check as Found
from fedaudit.reports.document.checks import canonical_hash, check, value_at
from fedaudit.reports.verification.audit_checks import NOT_VERIFIED
from fedaudit.reports.verification.verification import ALTERED, verify
from models.repositories import SigningKeyRepository
from models.tables.reports import PredictionAudit


def audit_bundle(session: Session, caller: Caller, audit_id: str) -> Iterator[bytes]:
    """The bytes of an audit's bundle. Raises ProblemError where there is no such report."""
    evidence = _evidence(session, find_audited(session, caller, audit_id))
    parts = BundleParts(
        experiment_id=evidence.experiment_id,
        spec=evidence.spec,
        names=(),
        report=evidence.report,
        checkpoints=(),
        keys=evidence.keys,
    )
    return bundle_chunks(parts, ())


def verify_audit(session: Session, caller: Caller, audit_id: str) -> AuditVerification:
    """The stored report, checked anew. Raises ProblemError as above.

    No key is trusted here: a service that vouches for its own keys proves nothing.
    """
    try:
        row = find_audited(session, caller, audit_id)
    except ValueError:
        # SQLite keeps JSON as text: a single changed byte can make it invalid.
        return _unreadable(audit_id)
    found = verify(_evidence(session, row), more=_columns(row))
    integrity = value_at(row.report, "integrity") or {}
    return AuditVerification(
        audit_id=row.id,
        valid=found.verdict != ALTERED,
        verdict=found.verdict,
        checks=[
            Check(name=one.name, outcome=one.outcome, detail=one.detail) for one in found.checks
        ],
        not_verified=list(found.beyond),
        signature=integrity.get("signature"),
        key_id=integrity.get("key_id"),
        reasons=integrity.get("reasons") or {},
    )


def _unreadable(audit_id: str) -> AuditVerification:
    why = "what is stored of the audit is no JSON any more: it was altered"
    return AuditVerification(
        audit_id=audit_id,
        valid=False,
        verdict=ALTERED,
        checks=[Check(name="report.readable", outcome="fail", detail=why)],
        not_verified=list(NOT_VERIFIED),
        signature=None,
        key_id=None,
        reasons={"signature": why, "key_id": why},
    )


def _evidence(session: Session, row: PredictionAudit) -> Evidence:
    faults = list[Fault]()
    keys = SigningKeyRepository(session).list()
    return Evidence(
        experiment_id=row.id,
        spec=row.spec,
        names=(),
        report=row.report,
        checkpoints=(),
        keys=readable_keys([key.public_key for key in keys], faults),
        compromised=leaked_keys(keys),
        rows=(),
        faults=faults,
    )


def _columns(row: PredictionAudit) -> Iterator[Found]:
    """The checks that only the database's own columns allow."""
    yield check(
        "report.hash",
        canonical_hash(row.report) == row.report_hash,
        good="the report is the one that was stored",
        bad="the report was altered after it was stored",
    )
    yield check(
        "audit.spec_hash",
        canonical_hash(row.spec) == row.spec_hash,
        good="the stored spec is the one that was asked for",
        bad="the stored spec was altered after it was asked for",
    )
    shown = {
        "data_fingerprint": (
            row.fingerprint,
            value_at(row.report, "provenance", "data_fingerprint"),
        ),
        "gate_outcome": (row.gate_outcome, value_at(row.report, "gate_outcome")),
    }
    wrong = [name for name, (stored, said) in shown.items() if stored != said]
    yield check(
        "audit.stored",
        not wrong,
        good="what is listed of the audit is what its report says",
        bad=f"listed otherwise than in the report: {', '.join(wrong)}",
    )
