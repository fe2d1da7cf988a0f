"""Register a data file, correct its registration, and delete it."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError, not_found
from api.schemas.federations import FederationBody
from api.services.disclosure import near_copy_warnings, refuse_below_floor, refuse_registration
from api.services.dispatch import IdempotentRequest, UnitMessage, queue_unit
from api.services.lookups import find_federation
from api.services.uploads import Arrived
from api.shared.data_faults import reads_data, shown_reasons
from api.shared.quotas import refuse_over_stored
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.registration import Registration, parse_registration, parse_uploaded
from infrastructure.storage import table_index_key
from models.repositories import (
    AuditLogRepository,
    ErasureRepository,
    FederationRepository,
    PendingUploadRepository,
)
from models.tables.federations import Federation
from models.values import FederationStatus, NewFile

ROUTE = "POST /v1/federations"

_STATUS_CODES: dict[FederationStatus, int] = {
    "ready": 200,
    "profiling": 202,
    "rejected": 202,
    "deleted": 202,
    "erased": 202,
}


def federation_bodies(
    resources: Resources, rows: Sequence[Federation], *, caller: Caller
) -> list[FederationBody]:
    """Federations as the caller may see them."""
    reads = reads_data(caller)
    warnings: Mapping[str, list[str]] = {}
    if reads:
        with resources.database.read() as session:
            ids = [row.id for row in rows]
            warnings = near_copy_warnings(session, caller.project_id, ids)
    return [
        FederationBody.of(
            row,
            reasons=shown_reasons(row.reasons, caller=caller),
            profile=reads,
            warnings=warnings.get(row.id, []),
        )
        for row in rows
    ]


def federation_body(resources: Resources, row: Federation, *, caller: Caller) -> FederationBody:
    """One federation as the caller may see it."""
    [body] = federation_bodies(resources, [row], caller=caller)
    return body


@dataclass(frozen=True)
class Registered:
    """The federation's current state; `unit_message` where it was queued for profiling just now."""

    federation: Federation
    unit_message: UnitMessage | None

    @property
    def status_code(self) -> int:
        """202 while a worker still has to profile it, 200 where everything was already done."""
        return _STATUS_CODES[self.federation.status]


def register_path(
    resources: Resources, caller: Caller, value: Any, idempotency_key: str | None
) -> Registered:
    """Register a file below the sources folder. Raises InvalidInputError, ProblemError."""
    idempotency = IdempotentRequest.of(idempotency_key, ROUTE, value)
    earlier = _earlier(resources, caller, idempotency)
    if earlier is not None:
        return earlier
    registration = parse_registration(value)
    refuse_below_floor(resources.settings, registration.fairness)
    # Imported here because this package loads pyarrow.
    from fedaudit.federations.reading.source_files import Files, open_path

    path = str(registration.federation.path)
    files = Files(resources.settings.sources_dir, may_read=resources.may_read(caller.project_id))
    with open_path(path, files=files, pointer="/federation/path") as source:
        fingerprint, size = source.fingerprint, source.size
    file = new_file(registration, fingerprint, PurePosixPath(path).name, size, storage_key=None)
    return register_file(resources, caller, file, idempotency)


def register_upload(
    resources: Resources, caller: Caller, arrived: Arrived, idempotency_key: str | None
) -> Registered:
    """Keep an uploaded file, unless the project already has its content, and register it.

    The file is stored before the database refers to it, and removed if that fails. Raises
    InvalidInputError, ProblemError.
    """
    refuse_below_floor(resources.settings, arrived.registration.fairness)
    file = new_file(
        arrived.registration,
        arrived.file.fingerprint,
        arrived.file.file_name,
        arrived.file.size_bytes,
        storage_key=arrived.file.storage_key,
    )
    identity = {"registration": file.registration, "fingerprint": file.fingerprint}
    idempotency = IdempotentRequest.of(idempotency_key, ROUTE, identity)
    earlier = _earlier(resources, caller, idempotency)
    if earlier is not None:
        arrived.file.writer.abort()
        return earlier
    arrived.file.writer.commit()
    with ExitStack() as unneeded:
        unneeded.callback(resources.storage.delete, arrived.file.storage_key)
        registered = register_file(resources, caller, file, idempotency)
        if registered.federation.storage_key == arrived.file.storage_key:
            unneeded.pop_all()
    return registered


def remove(resources: Resources, caller: Caller, federation_id: str) -> None:
    """Delete a federation's file and profile; what was spent on the data stays.

    Raises ProblemError while experiments need it. Where the storage fails, the federation is
    deleted already and the same call again removes the rest.
    """
    with resources.database.write() as session:
        found = find_federation(session, caller, federation_id)
        federations = FederationRepository(session, caller.project_id)
        federations.lock(found.id)
        if federations.in_use(found.id):
            raise ProblemError(
                409,
                "conflict",
                "experiments on the federation, or attacks on them, are queued or running; wait "
                "for their end, or cancel them",
            )
        if federations.mark_deleted(found.id):
            AuditLogRepository(session, caller.project_id).enter(
                "federation.removed", found.id, by=caller.actor
            )
    resources.storage.delete(table_index_key(caller.project_id, found.id))
    if found.storage_key is None:
        return
    resources.storage.delete(found.storage_key)
    with resources.database.write() as session:
        FederationRepository(session, caller.project_id).forget_file(found.id, found.storage_key)


def new_file(
    registration: Registration,
    fingerprint: str,
    file_name: str,
    size_bytes: int,
    *,
    storage_key: str | None,
) -> NewFile:
    """What is entered of a file under a registration."""
    return NewFile(
        fingerprint=fingerprint,
        name=registration.name,
        source=registration.federation.source,
        registration=registration.model_dump(mode="json"),
        file_name=file_name,
        size_bytes=size_bytes,
        storage_key=storage_key,
    )


def _earlier(
    resources: Resources, caller: Caller, idempotency: IdempotentRequest | None
) -> Registered | None:
    if idempotency is None:
        return None
    with resources.database.read() as session:
        found = idempotency.lookup(session, caller)
        if found is None:
            return None
        return Registered(find_federation(session, caller, str(found.resource_id)), None)


def register_file(
    resources: Resources,
    caller: Caller,
    file: NewFile,
    idempotency: IdempotentRequest | None,
    *,
    pending: str | None = None,
) -> Registered:
    """Enter a file that is stored, or lies below the sources folder.

    `pending`: the id of the upload that waits with this file; where the federation takes the file
    over, the upload is forgotten at once with it. Raises ProblemError.
    """
    lost = _lost_file(resources, caller, file)
    with resources.database.write() as session:
        if pending is not None:
            earlier = _taken_by_another(session, caller, pending, idempotency)
            if earlier is not None:
                return earlier
        across = resources.settings.budgets_across
        federations = FederationRepository(session, caller.project_id, across=across)
        before = federations.find(file.fingerprint)
        if before is not None:
            # Read again under a lock, so that it is not deleted meanwhile.
            before = federations.lock(before.id)
            _refuse_while_erasing(session, before)
        owners = federations.of_owner(file.fingerprint)
        refuse_registration(before, owners, file.registration)
        stored_before = None if before is None else before.storage_key
        if before is not None and _is_known(before, file):
            registered = Registered(before, None)
        else:
            registered = _queued(session, resources, caller, file)
        federation = registered.federation
        if file.storage_key is not None and federation.storage_key in (None, lost):
            federations.attach(federation.id, file)
            session.refresh(federation)
        if pending is not None and federation.storage_key == file.storage_key:
            PendingUploadRepository(session, caller.project_id).remove(pending)
        if idempotency is not None and not idempotency.claim(session, caller, federation.id):
            # The same request came twice at once: refused if it differs, else harmless.
            idempotency.lookup(session, caller)
        if registered.unit_message is not None:
            AuditLogRepository(session, caller.project_id).enter(
                "federation.registered",
                federation.id,
                by=caller.actor,
                fingerprint=file.fingerprint,
                again=before is not None,
            )
        if federation.storage_key is not None and federation.storage_key == file.storage_key:
            refuse_over_stored(session, caller.project_id, resources.settings)
    if stored_before not in (None, federation.storage_key):
        # From a rejected or lost federation, or left by a deletion that the storage did not carry
        # out.
        resources.storage.delete(str(stored_before))
    return registered


def _refuse_while_erasing(session: Session, before: Federation | None) -> None:
    if before is None or before.status != "erased":
        return
    if ErasureRepository(session, before.project_id).pending(before.id):
        raise ProblemError(
            409,
            "conflict",
            "these data are being erased from this project; if you may still use them, register "
            "them once that is done",
            federation_id=before.id,
            headers={"Retry-After": "5"},
        )


def _taken_by_another(
    session: Session, caller: Caller, pending: str, idempotency: IdempotentRequest | None
) -> Registered | None:
    """What the same request came to that was quicker; None where the upload, locked from here on,
    still waits. Raises ProblemError where it was discarded or removed meanwhile."""
    uploads = PendingUploadRepository(session, caller.project_id)
    if uploads.lock(pending, api_key_id=caller.key_id) is not None:
        return None
    found = None if idempotency is None else idempotency.lookup(session, caller)
    if found is None:
        raise not_found("uploaded table; it was discarded or registered meanwhile")
    return Registered(find_federation(session, caller, str(found.resource_id)), None)


def _lost_file(resources: Resources, caller: Caller, file: NewFile) -> str | None:
    """Where the project's file of the same content should be stored, if it is missing."""
    if file.storage_key is None:
        return None
    with resources.database.read() as session:
        before = FederationRepository(session, caller.project_id).find(file.fingerprint)
    if before is None or before.storage_key is None or resources.storage.holds(before.storage_key):
        return None
    return before.storage_key


def _queued(session: Session, resources: Resources, caller: Caller, file: NewFile) -> Registered:
    unit_message = queue_unit(
        session,
        caller.project_id,
        kind="profile",
        device="auto",
        max_attempts=resources.settings.max_attempts,
    )
    federations = FederationRepository(session, caller.project_id)
    return Registered(federations.register(file, unit_id=unit_message.unit_id), unit_message)


def _is_known(before: Federation, file: NewFile) -> bool:
    """Whether the federation is already registered this way, under any name of its file."""
    if before.status not in ("ready", "profiling") or before.registration is None:
        return False
    return _without_path(before.registration) == _without_path(file.registration)


def _without_path(registration: Any) -> dict[str, Any]:
    federation = {**registration["federation"], "path": None}
    return {**registration, "federation": federation}


def correct_registration(
    resources: Resources, caller: Caller, federation_id: str, value: Any
) -> Registered:
    """Register a federation's file otherwise, while it is rejected or no experiment used it.

    Raises InvalidInputError, and ProblemError where the file is gone or experiments used it.
    """
    with resources.database.read() as session:
        row = find_federation(session, caller, federation_id)
        used = FederationRepository(session, caller.project_id).used(row.id)
    _check_correctable(resources, row, used=used)
    registered = row.registration or {}
    path = str(registered["federation"]["path"])
    registration = parse_uploaded(_without_place(value, path), file_name=path)
    refuse_below_floor(resources.settings, registration.fairness)
    return register_file(
        resources,
        caller,
        NewFile(
            fingerprint=row.fingerprint,
            name=registration.name,
            source=registration.federation.source,
            registration=registration.model_dump(mode="json"),
            file_name=row.file_name or row.name,
            size_bytes=row.size_bytes or 0,
            storage_key=row.storage_key,
        ),
        None,
    )


def _check_correctable(resources: Resources, row: Federation, *, used: bool) -> None:
    if row.status in ("deleted", "erased") or row.registration is None:
        raise ProblemError(409, "conflict", "the federation has no file; upload it again")
    if used and row.status != "rejected":
        raise ProblemError(
            409,
            "conflict",
            "experiments used the federation under its registration; to register its file "
            "otherwise all the same, upload it again",
        )
    if row.storage_key is not None and not resources.storage.holds(row.storage_key):
        raise ProblemError(409, "conflict", "the stored file is lost; upload it again")


def _without_place(value: Any, path: str) -> Any:
    """The registration without the file's place, as `GET` shows it; another place is refused."""
    federation = value.get("federation") if isinstance(value, dict) else None
    if not isinstance(federation, dict):
        return value
    if federation.get("path", path) not in (path, None):
        message = "the file stays what it is; leave the path out, or upload another file"
        raise InvalidInputError([FieldError("/federation/path", message)])
    return {**value, "federation": {**federation, "path": None}}
