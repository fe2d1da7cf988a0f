"""Audits of predictions: requested, found, bundled and verified."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.schemas.experiment_tables import Check
from api.schemas.reports import AuditVerification
from api.services.admission import not_registered
from api.services.disclosure import floor_of, policy_of, refuse_faults, registration_of
from api.services.dispatch import IdempotentRequest, Queued, claimed_before, earlier_result
from api.services.lookups import found_by, note
from api.services.report_evidence import checks_of, leaked_keys, readable_keys, signature_in
from api.shared.data_faults import reads_data
from api.shared.federation_data import ready_federation
from api.shared.security import Call, Caller
from fedaudit.ledger.bundle import Evidence, Fault, bundle_chunks
from fedaudit.reports.audit_report import NOT_VERIFIED
from fedaudit.reports.checks import Check as Found
from fedaudit.reports.checks import canonical_hash, check, value_at
from fedaudit.reports.verification.verification import ALTERED, verify
from fedaudit.spec.audits import (
    AuditSpec,
    floor_faults_of_audit,
    in_audit,
    parse_audit,
    policy_faults,
    registered_use_faults,
)
from fedaudit.spec.errors import FieldError, InvalidInputError
from models.clock import utc_now
from models.identifiers import new_id
from models.repositories import (
    AuditRepository,
    FederationRepository,
    SigningKeyRepository,
    UnitRepository,
)
from models.tables.experiments import PredictionAudit
from models.tables.federations import Federation

_ROUTE = "POST /v1/audits"


def find_audit(session: Session, caller: Caller, audit_id: str) -> PredictionAudit:
    """Raises ProblemError where the caller's project has no such audit."""
    return found_by(AuditRepository(session, caller.project_id).get, audit_id, "audit")


def find_audited(session: Session, caller: Caller, audit_id: str) -> PredictionAudit:
    """An audit with a report. Raises ProblemError where there is none."""
    found = find_audit(session, caller, audit_id)
    if found.report is None:
        raise ProblemError(404, "not-found", f"the audit has no report: it is {found.status}")
    return found


def audit_report(call: Call, audit_id: str) -> dict[str, Any]:
    """The report of an audit, as it was stored. Raises ProblemError where there is none."""
    with call.reading() as session:
        return find_audited(session, call.caller, audit_id).report or {}


def ask_for_audit(call: Call, value: Any, idempotency_key: str | None) -> Queued[PredictionAudit]:
    """Queue the audit that a JSON value asks for. Raises InvalidInputError, ProblemError."""
    idempotency = IdempotentRequest.of(idempotency_key, _ROUTE, value)
    with call.reading() as session:
        earlier = earlier_result(session, call.caller, idempotency)
        if earlier is not None:
            return Queued(find_audit(session, call.caller, earlier), None)
    audit = parse_audit(value)
    refuse_faults(floor_faults_of_audit(floor_of(call.resources.settings), audit))
    try:
        fingerprint = _fingerprint(call, audit)
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
                created_by=call.caller.actor.as_dict(),
                created_at=utc_now(),
            )
        )
        # The same request may come twice at once: refused if it differs, else harmless.
        claimed_before(session, call.caller, idempotency, found.id)
        spec_hash = audit.hash
        note(
            session,
            call.caller,
            "audit.queued",
            found.id,
            fingerprint=fingerprint,
            spec_hash=spec_hash,
        )
        return Queued(found, unit)


def _fingerprint(call: Call, audit: AuditSpec) -> str:
    """The fingerprint of the data, which the caller may audit. Raises InvalidInputError."""
    if audit.id is not None or not reads_data(call.caller):
        with call.reading() as session:
            row = _registered(session, call.caller, audit)
        if not reads_data(call.caller):
            registration = registration_of(row)
            if registration is None:
                raise _not_registered(audit)
            refuse_faults(registered_use_faults(audit, registration))
        if audit.id is not None:
            return row.fingerprint
    # Imported here because this package loads pyarrow.
    from fedaudit.federations.reading.source_files import Files, open_path

    files = Files(
        call.resources.settings.sources_dir, may_read=call.resources.may_read(call.project_id)
    )
    with open_path(str(audit.path), files=files, pointer="/federation/path") as file:
        fingerprint = file.fingerprint
    if not reads_data(call.caller) and fingerprint != row.fingerprint:
        # The registered file was replaced by another one.
        raise _not_registered(audit)
    return fingerprint


def _registered(session: Session, caller: Caller, audit: AuditSpec) -> Federation:
    if audit.id is not None:
        return ready_federation(session, caller.project_id, audit.id)
    found = FederationRepository(session, caller.project_id).registered_at(audit.path or "")
    if found is None:
        raise _not_registered(audit)
    return found


def _not_registered(audit: AuditSpec) -> InvalidInputError:
    return not_registered("/path" if audit.id is None else "/id", "ask for the audit")


def _check_policies(session: Session, call: Call, audit: AuditSpec, *, fingerprint: str) -> None:
    """Raises InvalidInputError where the audit departs from the policy of the project's federation,
    or of the content's owner."""
    federations = FederationRepository(session, call.project_id)
    found: list[FieldError] = []
    for row in (federations.find(fingerprint), federations.of_owner(fingerprint)):
        if row is not None:
            found += policy_faults(policy_of(row), audit, registration=registration_of(row))
    refuse_faults(list(dict.fromkeys(found)))


def audit_bundle(session: Session, caller: Caller, audit_id: str) -> Iterator[bytes]:
    """The bytes of an audit's bundle. Raises ProblemError where there is no such report."""
    evidence = _evidence(session, find_audited(session, caller, audit_id))
    return bundle_chunks(replace(evidence, compromised={}), ())


def verify_audit(session: Session, caller: Caller, audit_id: str) -> AuditVerification:
    """The stored report, checked anew. Raises ProblemError as above. No key is trusted here: a
    service that vouches for its own keys proves nothing."""
    try:
        row = find_audited(session, caller, audit_id)
    except ValueError:
        # SQLite keeps JSON as text: a single changed byte can make it invalid.
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
    found = verify(_evidence(session, row), more=_columns(row))
    return AuditVerification(
        audit_id=row.id,
        valid=found.verdict != ALTERED,
        verdict=found.verdict,
        checks=checks_of(found),
        not_verified=list(found.beyond),
        **signature_in(row.report),
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
    fingerprint = value_at(row.report, "provenance", "data_fingerprint")
    shown = {
        "data_fingerprint": row.fingerprint == fingerprint,
        "gate_outcome": row.gate_outcome == value_at(row.report, "gate_outcome"),
    }
    wrong = [name for name, agrees in shown.items() if not agrees]
    yield check(
        "audit.stored",
        not wrong,
        good="the columns of the audit's list agree with its report",
        bad=f"the list differs from the report in {', '.join(wrong)}",
    )
