"""What the attacks of an experiment's report found, with their files as the worker stored them."""

from collections.abc import Sequence

from starlette.responses import Response

from api.http.problems import not_found
from api.schemas.experiments import AttackBody, AttackFileBody, AttackList
from api.services.lookups import find_later_attacks, find_report, gone_words, refuse_gone
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.attacks.attack_files import AttackFile, file_in, files_in
from fedaudit.reports.sections.attacks import ReportedAttack
from infrastructure.storage import Storage, StorageError, attack_files_key

FILE_TYPE = "application/octet-stream"
"""Whatever a file is: browsers are to save it, and to show nothing."""
_NO_FILES = "the attack left none"


def attack_list(resources: Resources, caller: Caller, experiment_id: str) -> AttackList:
    """The attacks of the experiment's report, with their files as far as the storage can be asked.

    Raises ProblemError where it has no report.
    """
    with resources.database.read() as session:
        report = find_report(session, caller, experiment_id)
        gone = gone_words(session, caller.project_id, "attack-files", experiment_id)
    attacks = report.document["attacks"]
    stored: list[AttackFile] = []
    if attacks and gone is None:
        try:
            stored = stored_files(resources.storage, caller.project_id, experiment_id)
        except StorageError as error:
            gone = str(error)
    base = f"/v1/experiments/{experiment_id}/attacks"
    return AttackList(items=attack_bodies(base, attacks, stored, gone=gone))


def attack_file(
    resources: Resources,
    caller: Caller,
    experiment_id: str,
    *,
    position: int,
    name: str,
    later_id: str | None = None,
) -> bytes:
    """The content of one file. `later_id`: of attacks that were asked for after the report.

    Raises ProblemError where there is none, StorageError where the storage cannot answer.
    """
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


def stored_files(storage: Storage, project_id: str, owner_id: str) -> list[AttackFile]:
    """What attacks left, by position and name. Raises StorageError."""
    key = attack_files_key(project_id, owner_id)
    if not storage.holds(key):
        return []
    with storage.local(key) as archive:
        return files_in(archive)


def attack_bodies(
    base: str, sections: Sequence[object], stored: list[AttackFile], *, gone: str | None
) -> list[AttackBody]:
    """Each attack with its files, which lie below the address `base`; why there are none."""
    return [_body(base, position, one, stored, gone) for position, one in enumerate(sections)]


def _body(
    base: str, position: int, section: object, stored: list[AttackFile], gone: str | None
) -> AttackBody:
    files = [
        AttackFileBody(
            name=one.name, size_bytes=one.size_bytes, href=f"{base}/{position}/{one.name}"
        )
        for one in stored
        if one.position == position
    ]
    return AttackBody(
        position=position,
        section=ReportedAttack.model_validate(section),
        files=files,
        files_reason=None if files else gone or _NO_FILES,
    )
