"""Ask for an audit of predictions: whose data, under which policy, once however often it is
repeated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from api.services.audits.audit_lookups import find_audit
from api.services.base.dispatch import UnitMessage, queue_unit
from api.services.base.idempotency import IdempotentRequest
from api.services.federations.disclosure_policies import floor_of, policy_of
from api.shared.data_faults import reads_data
from api.shared.federation_files import ready_federation
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.audits.audit_departures import (
    floor_faults_of_audit,
    policy_faults,
    registered_use_faults,
)
from fedaudit.spec.audits.audit_spec import AuditSpec, in_audit, parse_audit
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.registration import Registration, parse_registration
from models.repositories import AuditLogRepository, AuditRepository, FederationRepository
from models.tables.federations import Federation
from models.tables.reports import PredictionAudit
from models.values import NewAudit

ROUTE = "POST /v1/audits"

_NOT_REGISTERED = (
    "is not registered in this project, and this API key lacks the scope federations:read: ask "
    "someone whose key has it to ask for the audit, or to register the file and give you its `id`"
)


@dataclass(frozen=True)
class AskedAudit:
    """The audit's current state; `unit_message` where it was queued just now."""

    audit: PredictionAudit
    unit_message: UnitMessage | None


def ask_for_audit(
    resources: Resources, caller: Caller, value: Any, idempotency_key: str | None
) -> AskedAudit:
    """Queue the audit that a JSON value asks for. Raises InvalidInputError, ProblemError."""
    idempotency = IdempotentRequest.of(idempotency_key, ROUTE, value)
    if idempotency is not None:
        with resources.database.read() as session:
            earlier = idempotency.lookup(session, caller)
            if earlier is not None:
                return AskedAudit(find_audit(session, caller, str(earlier.resource_id)), None)
    audit = parse_audit(value)
    _refuse(floor_faults_of_audit(floor_of(resources.settings), audit))
    try:
        fingerprint = _fingerprint(resources, caller, audit)
    except InvalidInputError as error:
        raise InvalidInputError(in_audit(error.errors)) from None
    with resources.database.write() as session:
        _check_policies(session, resources, caller, audit, fingerprint=fingerprint)
        message = queue_unit(
            session,
            caller.project_id,
            kind="audit",
            device="auto",
            max_attempts=resources.settings.max_attempts,
        )
        found = AuditRepository(session, caller.project_id).create(
            NewAudit(
                name=audit.name,
                spec=audit.model_dump(mode="json"),
                spec_hash=audit.hash,
                fingerprint=fingerprint,
                scored=f"{audit.truth}\n{audit.predicted_by}",
                threshold=audit.threshold,
            ),
            unit_id=message.unit_id,
            by=caller.actor,
        )
        if idempotency is not None and not idempotency.claim(session, caller, found.id):
            # The same request came twice at once: refused if it differs, else harmless.
            idempotency.lookup(session, caller)
        AuditLogRepository(session, caller.project_id).enter(
            "audit.queued", found.id, by=caller.actor, fingerprint=fingerprint, spec_hash=audit.hash
        )
        return AskedAudit(found, message)


def _fingerprint(resources: Resources, caller: Caller, audit: AuditSpec) -> str:
    """That of the data, which the caller may ask about. Raises InvalidInputError."""
    if audit.id is not None or not reads_data(caller):
        with resources.database.read() as session:
            row = _registered(session, caller, audit)
        if not reads_data(caller):
            registration = _registration_of(row)
            if registration is None:
                raise _not_registered(audit)
            _refuse(registered_use_faults(audit, registration))
        if audit.id is not None:
            return row.fingerprint
    # Imported here because this package loads pyarrow.
    from fedaudit.federations.reading.source_files import Files, open_path

    files = Files(resources.settings.sources_dir, may_read=resources.may_read(caller.project_id))
    with open_path(str(audit.path), files=files, pointer="/federation/path") as file:
        fingerprint = file.fingerprint
    if not reads_data(caller) and fingerprint != row.fingerprint:
        # Another file lies there than was registered.
        raise _not_registered(audit)
    return fingerprint


def _registered(session: Session, caller: Caller, audit: AuditSpec) -> Federation:
    if audit.id is not None:
        return ready_federation(session, caller.project_id, audit.id)
    found = FederationRepository(session, caller.project_id).registered_at(audit.path or "")
    if found is None:
        raise _not_registered(audit)
    return found


def _check_policies(
    session: Session, resources: Resources, caller: Caller, audit: AuditSpec, *, fingerprint: str
) -> None:
    """That the audit keeps to the policy of the project's federation, and of the content's owner.

    Raises InvalidInputError.
    """
    federations = FederationRepository(
        session, caller.project_id, across=resources.settings.budgets_across
    )
    found: list[FieldError] = []
    for row in (federations.find(fingerprint), federations.of_owner(fingerprint)):
        if row is not None:
            found += policy_faults(policy_of(row), audit, registration=_registration_of(row))
    _refuse(list(dict.fromkeys(found)))


def _registration_of(row: Federation) -> Registration | None:
    return None if row.registration is None else parse_registration(row.registration)


def _not_registered(audit: AuditSpec) -> InvalidInputError:
    where = "/path" if audit.id is None else "/id"
    return InvalidInputError([FieldError(where, _NOT_REGISTERED, of_spec=True)])


def _refuse(faults: Sequence[FieldError]) -> None:
    if faults:
        raise InvalidInputError(faults)
