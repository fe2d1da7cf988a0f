"""Attacks after a report as their readers see them, with their files where these may be read."""

from sqlalchemy.orm import Session

from api.schemas.experiments import LaterAttacksBody, LaterAttacksList
from api.schemas.people import ActorBody
from api.services.attacks.stored_attacks import attack_bodies, stored_files
from api.services.lookups import find_report, gone_words
from api.shared.data_faults import shown_detail
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.attacks.attack_files import AttackFile
from infrastructure.storage import StorageError
from models.repositories import LaterAttacksRepository
from models.tables.reports import LaterAttacks

_NOT_READABLE = "files of attacks are read with the scope ledger:read"


def later_list(resources: Resources, caller: Caller, experiment_id: str) -> LaterAttacksList:
    """Every request, oldest first. Raises ProblemError where the experiment has no report."""
    with resources.database.read() as session:
        find_report(session, caller, experiment_id)
        rows = LaterAttacksRepository(session, caller.project_id).list(experiment_id)
        return LaterAttacksList(items=[later_body(resources, session, caller, row) for row in rows])


def later_body(
    resources: Resources, session: Session, caller: Caller, row: LaterAttacks
) -> LaterAttacksBody:
    """The body of one request; files are named to callers who may read them alone."""
    statement = row.statement
    files, gone = _files(resources, session, caller, row)
    base = f"/v1/experiments/{row.experiment_id}/attacks/later/{row.id}"
    return LaterAttacksBody(
        id=row.id,
        experiment_id=row.experiment_id,
        number=row.number,
        status=row.status,
        status_reason=row.status_reason,
        status_detail=shown_detail(row.status_reason, row.status_detail, caller=caller),
        asked=row.asked,
        report_hash=row.report_hash,
        ledger_hash=row.ledger_hash,
        basis=None if statement is None else statement["basis"],
        items=(
            [] if statement is None else attack_bodies(base, statement["attacks"], files, gone=gone)
        ),
        alarms=row.alarms,
        created_at=row.created_at,
        created_by=ActorBody.model_validate(row.created_by),
        started_at=row.started_at,
        finished_at=row.finished_at,
        cancelled_by=(
            None if row.cancelled_by is None else ActorBody.model_validate(row.cancelled_by)
        ),
        envelope=row.envelope,
    )


def _files(
    resources: Resources, session: Session, caller: Caller, row: LaterAttacks
) -> tuple[list[AttackFile], str | None]:
    """Those that are stored, and why there are none."""
    if not caller.may("ledger:read"):
        return [], _NOT_READABLE
    gone = gone_words(session, row.project_id, "attack-files", row.id)
    if row.statement is None or gone is not None:
        return [], gone
    try:
        return stored_files(resources.storage, row.project_id, row.id), None
    except StorageError as error:
        return [], str(error)
