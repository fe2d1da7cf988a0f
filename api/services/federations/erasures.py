"""Erase a federation: what tells of its people goes, what was spent and signed stays."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError, not_found
from api.services.base.lookups import find_federation
from api.shared.resources import Resources
from api.shared.security import Caller
from infrastructure.storage import (
    artifact_key,
    attack_files_key,
    model_key,
    record_table_key,
    table_index_key,
)
from models.repositories import (
    AuditLogRepository,
    ErasureRepository,
    ExpiredFileRepository,
    FederationRepository,
)
from models.repositories.erasures import Leaving
from models.tables.declared_ledgers import DeclaredLedger
from models.tables.federations import Erasure, Federation

_SHOWN = 20


def erase(
    resources: Resources, caller: Caller, federation_id: str, *, reference: str | None
) -> tuple[Erasure, bool]:
    """The erasure, and whether it began just now; one that was erased already stays as it is.

    One transaction takes the federation out of use, and removes all that the database holds but
    names. The sweeper removes these and the files, however often it is stopped. Raises ProblemError
    while anything needs the federation, and for made-up data.
    """
    with resources.database.write() as session:
        found = find_federation(session, caller, federation_id)
        erasures = ErasureRepository(session, caller.project_id)
        ledgers = erasures.lock_ledgers(found.id)
        locked = FederationRepository(session, caller.project_id).lock(found.id)
        if locked is None:
            raise not_found("federation")
        known = erasures.newest(locked.id)
        if locked.status == "erased" and known is not None:
            return known, False
        made = _erase(session, caller, locked, ledgers, reference=reference)
    resources.federations.forget()
    for ledger in ledgers:
        resources.ledgers.forget(ledger.id)
    return made, True


def newest_erasure(resources: Resources, caller: Caller, federation_id: str) -> Erasure:
    """A federation's last erasure. Raises ProblemError where it has none."""
    with resources.database.read() as session:
        found = find_federation(session, caller, federation_id)
        erasure = ErasureRepository(session, caller.project_id).newest(found.id)
    if erasure is None:
        raise not_found("erasure of this federation")
    return erasure


def _erase(
    session: Session,
    caller: Caller,
    federation: Federation,
    ledgers: Sequence[DeclaredLedger],
    *,
    reference: str | None,
) -> Erasure:
    erasures = ErasureRepository(session, caller.project_id)
    leaving = erasures.leaving(federation, ledgers)
    _refuse(erasures, federation, leaving, ledgers)
    files = _files(caller.project_id, federation, leaving)
    counted = {
        "uploaded_data": int(federation.storage_key is not None),
        "models": len(leaving.models),
        "record_tables": len(leaving.record_tables),
        "attack_files": len(leaving.attacked),
        "artifacts": len(leaving.artifacts),
        "pending_uploads": len(leaving.uploads),
        "ledgers_without_names": len(leaving.named),
    }
    others = erasures.other_projects(federation)
    counted |= erasures.erase(federation, leaving)
    gone = ExpiredFileRepository(session, caller.project_id)
    for experiment_id in leaving.models:
        gone.note("model", experiment_id, reason="erased")
    for experiment_id in leaving.record_tables:
        gone.note("record-table", experiment_id, reason="erased")
    for owner_id in leaving.attacked:
        gone.note("attack-files", owner_id, reason="erased")
    for sha256 in leaving.artifacts:
        gone.note("artifact", sha256, reason="erased")
    made = erasures.add(
        federation,
        by=caller.actor,
        reference=reference,
        removed=counted,
        files=files,
        ledgers=leaving.named,
        others=len(others),
    )
    _tell(session, caller, federation, made, others)
    return made


def _refuse(
    erasures: ErasureRepository,
    federation: Federation,
    leaving: Leaving,
    ledgers: Sequence[DeclaredLedger],
) -> None:
    if erasures.is_made_up(federation):
        raise ProblemError(409, "conflict", "these data are made up: they are nobody's to erase")
    needing = list(erasures.in_use(federation, leaving))
    if needing:
        raise ProblemError(
            409,
            "conflict",
            f"{len(needing)} experiments, attacks or audits that have not ended need the "
            "federation or a model of it; cancel them, or wait for their end, and ask again",
            needed_by=needing[:_SHOWN],
        )
    unsigned = [
        one.id for one in ledgers if one.id in leaving.ledgers and one.entries != one.signed_entries
    ]
    if unsigned:
        raise ProblemError(
            409,
            "conflict",
            "ledgers of trainings elsewhere have rounds that are not signed yet, and without names "
            "they never could be; ask again in half a minute",
            needed_by=unsigned[:_SHOWN],
        )


def _files(project_id: str, federation: Federation, leaving: Leaving) -> list[str]:
    stored = [] if federation.storage_key is None else [federation.storage_key]
    return [
        *stored,
        table_index_key(project_id, federation.id),
        *leaving.uploads,
        # Of every run: one that failed at its very end may have stored them already.
        *(model_key(project_id, one) for one in leaving.experiments),
        *(record_table_key(project_id, one) for one in leaving.experiments),
        *(
            attack_files_key(project_id, one)
            for one in dict.fromkeys([*leaving.experiments, *leaving.attacked])
        ),
        *(artifact_key(project_id, one) for one in leaving.artifacts),
    ]


def _tell(
    session: Session,
    caller: Caller,
    federation: Federation,
    made: Erasure,
    others: Sequence[tuple[str, str]],
) -> None:
    """Enters it in the logs of all that hold the content, in one order so that nobody waits in a
    circle."""
    details: dict[str, Any] = {"number": made.number, "removed": made.removed}
    for project_id, federation_id in sorted([*others, (caller.project_id, federation.id)]):
        log = AuditLogRepository(session, project_id)
        if project_id == caller.project_id:
            reference = made.reference
            log.enter(
                "federation.erased", federation.id, by=caller.actor, reference=reference, **details
            )
        else:
            log.enter("federation.erased-elsewhere", federation_id, by=None, origin="sweeper")
