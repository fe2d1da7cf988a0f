"""The audit log: its pages, the check of its chain, and entries for exported ledgers."""

from functools import partial

from sqlalchemy.orm import Session

from api.http.answers import SmallInteger, key_type
from api.schemas.people import (
    AuditEntryBody,
    AuditLogPage,
    AuditLogParameters,
    AuditLogVerification,
)
from api.services.lookups import list_page, note
from api.shared.security import Call, Caller
from fedaudit.ledger.audit_log import AuditChain, SignedHead
from fedaudit.ledger.statements import Envelope, PublicKey
from models.repositories import AuditLogRepository, SigningKeyRepository
from models.tables.accounts import AuditHead

_BLOCK = 1000


def note_export(call: Call, subject: str, form: str) -> None:
    """Enter the export of a confidential ledger before its first byte leaves."""
    with call.writing() as session:
        note(session, call.caller, "ledger.exported", subject, form=form)


def audit_log_page(call: Call, parameters: AuditLogParameters) -> AuditLogPage:
    """Entries of the caller's project. Raises ProblemError for a cursor of another list."""
    with call.reading() as session:
        rows = partial(
            AuditLogRepository(session, call.project_id).list,
            actor=parameters.actor,
            action=parameters.action,
            subject=parameters.subject,
            after=parameters.created_after,
            before=parameters.created_before,
        )
        return list_page(
            AuditLogPage,
            "audit-log",
            parameters,
            rows,
            lambda found: map(AuditEntryBody.of, found),
            key=key_type(SmallInteger),
        )


def verify_audit_log(call: Call) -> AuditLogVerification:
    """Every link computed anew, up to the end that the database counts."""
    faults: list[str] = []
    with call.reading() as session:
        entries = AuditLogRepository(session, call.project_id)
        head = entries.head()
        chain = AuditChain(call.project_id)
        signed = None if head is None else _signed_head(session, call.caller, head, faults)
        end = 0 if head is None else head.entries
        try:
            _read(entries, chain, end=end, signed=signed)
        except ValueError as error:
            faults.append(str(error))
    if head is not None and not faults and (chain.entries, chain.link) != (end, head.link):
        faults.append(f"the log ends with entry {chain.entries}, and {end} were written")
    return AuditLogVerification(
        project_id=call.project_id,
        entries=chain.entries,
        link=chain.link,
        valid=not faults,
        faults=faults,
        signed_entries=0 if signed is None else signed.entries,
        signed_head=None if head is None else head.envelope,
    )


def _read(
    entries: AuditLogRepository, chain: AuditChain, *, end: int, signed: SignedHead | None
) -> None:
    """Raises ValueError where an entry does not follow, or is not what was signed."""
    while block := entries.block(chain.entries, limit=_BLOCK):
        for row in block:
            if chain.entries == end:
                # Postgres reads each statement by itself: the row was written meanwhile.
                return
            chain.read({**row.content(), "link": row.link})
            if signed is not None and chain.entries == signed.entries and chain.link != signed.link:
                raise ValueError(f"entry {chain.entries} is not the one that was signed")
    if signed is not None and chain.entries < signed.entries:
        raise ValueError(f"{signed.entries} entries were signed, and there are {chain.entries}")


def _signed_head(
    session: Session, caller: Caller, head: AuditHead, faults: list[str]
) -> SignedHead | None:
    """The head that was signed last, where one of the service's keys made its signature."""
    if head.envelope is None:
        if head.signed_entries:
            faults.append("the signed head is missing")
        return None
    try:
        envelope = Envelope.from_dict(head.envelope)
        signed = SignedHead.of(envelope)
    except ValueError as error:
        faults.append(f"the signed head {error}")
        return None
    keys = {row.key_id: row.public_key for row in SigningKeyRepository(session).list()}
    pem = keys.get(envelope.key_id)
    if pem is None:
        faults.append("the signed head was signed by a key that the service does not know")
    elif not PublicKey.from_pem(pem.encode()).verifies(envelope.signature, envelope.message):
        faults.append("the signed head has a wrong signature")
    elif signed.project_id != caller.project_id:
        faults.append("the signed head is another project's")
    else:
        return signed
    return None
