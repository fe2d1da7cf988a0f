"""Erase a federation: data about its people go, spending and signatures stay."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fastapi import Response
from sqlalchemy.orm import Session

from api.http.problems import conflict, not_found
from api.openapi import Router, problems
from api.schemas.federations import ErasureBody, ErasureRequest
from api.services.lookups import find_federation
from api.services.report_evidence import readable_keys
from api.shared.security import Administrator, Call, Caller, FederationsReader
from fedaudit.ledger.statements import ErasureReceipt, Keyring
from fedaudit.reports.verification.checkpoints import Signed
from infrastructure.storage import file_key
from models.repositories import (
    AuditLogRepository,
    ErasureRepository,
    ExpiredFileRepository,
    FederationRepository,
    SigningKeyRepository,
)
from models.repositories.erasures import Leaving
from models.tables.federations import Erasure, Federation
from models.tables.ledger import DeclaredLedger
from models.values import FileKind, utc_now

router = Router(prefix="/federations/{federation_id}/erasure", tags=["federations"])

_SHOWN, _RECEIPT = 20, "the receipt"
_COUNTED: dict[FileKind, str] = {
    "model": "models",
    "record-table": "record_tables",
    "attack-files": "attack_files",
    "artifact": "artifacts",
}
"""Under which names a receipt counts what was removed."""
_SAID = (
    *("reference", "requested_at", "requested_by", "completed_at"),
    *("removed", "remains", "ledgers", "other_projects"),
)
"""Fields of what is shown that a receipt states."""


@router.post(
    "",
    status_code=202,
    response_model=ErasureBody,
    responses=problems(409) | {200: {"model": ErasureBody, "description": "Erased before."}},
)
def erase_federation(
    federation_id: str, call: Administrator, asked: ErasureRequest, answer: Response
) -> Any:
    """Remove the data about the federation's people, for good; spending and signatures stay.

    Its data, profile and registration are removed, and of its experiments the models, record
    tables, counts of groups and the names of clients. Budgets keep what was spent, for anyone who
    registers the same content again. `remains` lists what stays and why.
    """
    with call.writing() as session:
        found = find_federation(session, call.caller, federation_id)
        erasures = ErasureRepository(session, call.project_id)
        ledgers = erasures.lock_ledgers(found.id)
        locked = FederationRepository(session, call.project_id).lock(found.id)
        if locked is None:
            raise not_found("federation")
        known = erasures.newest(locked.id)
        if locked.status == "erased" and known is not None:
            answer.status_code = 200
            return ErasureBody.of(known)
        made = _erase(session, call.caller, locked, ledgers, reference=asked.reference)
    call.resources.federations.forget()
    for ledger in ledgers:
        call.resources.ledgers.forget(ledger.id)
    return ErasureBody.of(made)


@router.get("")
def get_erasure(federation_id: str, call: FederationsReader) -> ErasureBody:
    """The federation's last erasure: how far it is, and its signed receipt once it is done."""
    with call.reading() as session:
        found = find_federation(session, call.caller, federation_id)
        erasure = ErasureRepository(session, call.project_id).newest(found.id)
    if erasure is None:
        raise not_found("erasure of this federation")
    return ErasureBody.of(erasure)


def _erase(
    session: Session,
    caller: Caller,
    federation: Federation,
    ledgers: Sequence[DeclaredLedger],
    *,
    reference: str | None,
) -> Erasure:
    """One transaction takes the federation out of use, and removes all that the database holds but
    names. The sweeper removes these and the files, however often it is stopped. Raises ProblemError
    while anything needs the federation, and for synthetic data."""
    erasures = ErasureRepository(session, caller.project_id)
    leaving = erasures.leaving(federation, ledgers)
    _refuse(erasures, federation, leaving, ledgers)
    files = _files(caller.project_id, federation, leaving)
    counted = {
        "uploaded_data": int(federation.storage_key is not None),
        **{_COUNTED[kind]: len(owners) for kind, owners in leaving.files.items()},
        "pending_uploads": len(leaving.uploads),
        "ledgers_without_names": len(leaving.named),
    }
    others = erasures.other_projects(federation)
    counted |= erasures.erase(federation, leaving)
    gone = ExpiredFileRepository(session, caller.project_id)
    for kind, owners in leaving.files.items():
        for id_ in owners:
            gone.note(kind, id_, reason="erased")
    made = erasures.add(
        Erasure(
            federation_id=federation.id,
            project_id=caller.project_id,
            fingerprint=federation.fingerprint,
            reference=reference,
            requested_at=utc_now(),
            requested_by=vars(caller.actor),
            removed=counted,
            files=files,
            ledgers=list(leaving.named),
            others=len(others),
        )
    )
    # In the logs of all projects with the content, in one order: no two wait for each other.
    for project_id, id_ in sorted([*others, (caller.project_id, federation.id)]):
        entries = AuditLogRepository(session, project_id)
        if project_id == caller.project_id:
            entries.enter(
                "federation.erased",
                id_,
                by=caller.actor,
                reference=made.reference,
                number=made.number,
                removed=made.removed,
            )
        else:
            entries.enter("federation.erased-elsewhere", id_, by=None, origin="sweeper")
    return made


def _refuse(
    erasures: ErasureRepository,
    federation: Federation,
    leaving: Leaving,
    ledgers: Sequence[DeclaredLedger],
) -> None:
    if erasures.is_made_up(federation):
        raise conflict("these data are synthetic: they describe no people to erase")
    needing = list(erasures.in_use(federation, leaving))
    if needing:
        raise conflict(
            f"{len(needing)} experiments, attacks or audits that have not ended need the "
            "federation or a model of it; cancel them, or wait for their end, and ask again",
            needed_by=needing[:_SHOWN],
        )
    unsigned = [
        one.id for one in ledgers if one.id in leaving.ledgers and one.entries != one.signed_entries
    ]
    if unsigned:
        raise conflict(
            "ledgers of trainings elsewhere have rounds that are not signed yet, and without names "
            "they never could be; ask again in half a minute",
            needed_by=unsigned[:_SHOWN],
        )


def _files(project_id: str, federation: Federation, leaving: Leaving) -> list[str]:
    files = [] if federation.storage_key is None else [federation.storage_key]
    files += leaving.uploads
    for kind, owners in leaving.files.items():
        # Of every run: one that failed at its very end may have stored them already.
        runs = () if kind == "artifact" else leaving.experiments
        files += [file_key(kind, project_id, one) for one in dict.fromkeys([*runs, *owners])]
    return files


@dataclass(frozen=True)
class ShownErasure:
    """One erasure: what its receipt states where the signature holds, else what is stored."""

    body: ErasureBody
    federation: str
    """Its name."""
    key_id: str | None = None
    """The key that signed; None until it is done."""
    fault: str | None = None
    """Why the receipt proves nothing."""
    compromised_at: datetime | None = None
    """The time from which others may have the key."""


def shown_erasure(call: Call, federation_id: str, number: int) -> ShownErasure:
    """One erasure of a federation. Raises ProblemError where there is none of this number."""
    with call.reading() as session:
        found = find_federation(session, call.caller, federation_id)
        row = ErasureRepository(session, call.project_id).get(found.id, number)
        keys = SigningKeyRepository(session).list()
    if row is None:
        raise not_found("erasure of this federation")
    body = ErasureBody.of(row)
    if row.envelope is None:
        return ShownErasure(body, found.name)
    read = Signed.read([row.envelope], ErasureReceipt.of, what=_RECEIPT)
    carried = readable_keys([one.public_key for one in keys], [])
    faults = read.signature_faults(Keyring(trusted=(), carried=carried), lambda _: _RECEIPT)
    for said in read.items:
        if (said.federation_id, said.number) != (row.federation_id, row.number):
            faults.append(f"{_RECEIPT} is of another erasure")
    signer = next(iter(read.signers), None)
    if faults:
        return ShownErasure(body, found.name, signer, faults[0])
    signed = {name: getattr(said, name) for said in read.items for name in _SAID}
    body = ErasureBody.model_validate({**body.model_dump(), **signed})
    leaked = next((one.compromised_at for one in keys if one.key_id == signer), None)
    return ShownErasure(body, found.name, signer, compromised_at=leaked)
