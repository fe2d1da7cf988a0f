"""What attacks of an experiment found, in its report and after it, with their files."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session
from starlette.responses import Response

from api.http.problems import not_found
from api.schemas.base import of_row
from api.schemas.experiments import (
    AttackBody,
    AttackFileBody,
    AttackList,
    LaterAttacksBody,
    LaterAttacksList,
)
from api.services.lookups import find_later_attacks, find_report, gone_words, refuse_gone
from api.shared.data_faults import shown_detail
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.attacks.attack_files import AttackFile, file_in, files_in
from fedaudit.reports.later import judged_later
from infrastructure.storage import StorageError, attack_files_key
from models.repositories import LaterAttacksRepository
from models.tables.reports import LaterAttacks, Report

FILE_TYPE = "application/octet-stream"
"""Whatever a file is: browsers are to save it, and to show nothing."""
_NO_FILES = "the attack left none"
_NOT_READABLE = "files of attacks are read with the scope ledger:read"


def judged_document(session: Session, report: Report) -> dict[str, Any]:
    """The document that decides: a stored report beside what attacks found after it was signed."""
    later = LaterAttacksRepository(session, report.project_id).sections(report.experiment_id)
    return judged_later(report.document, later)


def find_judged(session: Session, caller: Caller, experiment_id: str) -> dict[str, Any]:
    """The same of an experiment of the caller's project. Raises ProblemError without a report."""
    return judged_document(session, find_report(session, caller, experiment_id))


def attack_list(resources: Resources, caller: Caller, experiment_id: str) -> AttackList:
    """The attacks of the experiment's report, with their files if the storage answers. Raises
    ProblemError if it has no report."""
    with resources.database.read() as session:
        attacks = find_report(session, caller, experiment_id).document["attacks"]
        stored, gone = _files(resources, session, caller.project_id, experiment_id, attacks)
    return AttackList(
        items=_bodies(f"/v1/experiments/{experiment_id}/attacks", attacks, stored, gone)
    )


def later_list(resources: Resources, caller: Caller, experiment_id: str) -> LaterAttacksList:
    """Every request for attacks after the report, oldest first. Raises ProblemError if the
    experiment has no report."""
    with resources.database.read() as session:
        find_report(session, caller, experiment_id)
        rows = LaterAttacksRepository(session, caller.project_id).list(experiment_id)
        return LaterAttacksList(items=[later_body(resources, session, caller, row) for row in rows])


def later_body(
    resources: Resources, session: Session, caller: Caller, row: LaterAttacks
) -> LaterAttacksBody:
    """The body of one request; files are named to callers who may read them alone."""
    attacks = [] if row.statement is None else row.statement["attacks"]
    files: list[AttackFile] = []
    gone: str | None = _NOT_READABLE
    if caller.may("ledger:read"):
        files, gone = _files(resources, session, row.project_id, row.id, attacks)
    base = f"/v1/experiments/{row.experiment_id}/attacks/later/{row.id}"
    return of_row(
        LaterAttacksBody,
        row,
        status_detail=shown_detail(row.status_reason, row.status_detail, caller=caller),
        basis=None if row.statement is None else row.statement["basis"],
        items=_bodies(base, attacks, files, gone),
    )


def attack_file(
    resources: Resources,
    caller: Caller,
    experiment_id: str,
    *,
    position: int,
    name: str,
    later_id: str | None = None,
) -> bytes:
    """The content of one file. `later_id`: of attacks that were asked for after the report. Raises
    ProblemError if there is none, StorageError if the storage cannot answer."""
    with resources.database.read() as session:
        find_report(session, caller, experiment_id)
        if later_id is not None:
            find_later_attacks(session, caller, experiment_id, later_id)
        owner_id = later_id or experiment_id
        refuse_gone(session, caller.project_id, "attack-files", owner_id)
    key = attack_files_key(caller.project_id, owner_id)
    found = None
    if resources.storage.holds(key):
        with resources.storage.local(key) as archive:
            found = file_in(archive, position=position, name=name)
    if found is None:
        raise not_found("file of an attack")
    return found


def file_response(content: bytes, file_name: str) -> Response:
    """A file of an attack as an attachment that no cache keeps."""
    headers = {
        "Content-Disposition": f'attachment; filename="{file_name}"',
        "Cache-Control": "no-store",
    }
    return Response(content, media_type=FILE_TYPE, headers=headers)


def _files(
    resources: Resources,
    session: Session,
    project_id: str,
    owner_id: str,
    attacks: Sequence[object],
) -> tuple[list[AttackFile], str | None]:
    """The files that these attacks left, by position and name, and why there are none."""
    gone = gone_words(session, project_id, "attack-files", owner_id)
    key = attack_files_key(project_id, owner_id)
    if not attacks or gone is not None:
        return [], gone
    try:
        if not resources.storage.holds(key):
            return [], None
        with resources.storage.local(key) as archive:
            return files_in(archive), None
    except StorageError as error:
        return [], str(error)


def _bodies(
    base: str, sections: Sequence[object], stored: list[AttackFile], gone: str | None
) -> list[AttackBody]:
    """Each attack with its files, below the address `base`."""
    found = []
    for position, section in enumerate(sections):
        files = [
            of_row(AttackFileBody, one, href=f"{base}/{position}/{one.name}")
            for one in stored
            if one.position == position
        ]
        why = None if files else gone or _NO_FILES
        body = {"position": position, "section": section, "files": files, "files_reason": why}
        found.append(AttackBody.model_validate(body))
    return found
