"""Register a data file, correct its registration, and delete it."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import conflict, not_found
from api.schemas.base import of_row
from api.schemas.federations import FederationBody, shown_profile
from api.services.disclosure import near_copy_warnings, refuse_below_floor, refuse_by_policies
from api.services.dispatch import IdempotentRequest, Queued
from api.services.lookups import find_federation, note
from api.services.uploads import ArrivedFile
from api.shared.data_faults import reads_data, shown_reasons
from api.shared.security import Call, Caller, refuse_over_stored
from fedaudit.spec.disclosure import registration_faults
from fedaudit.spec.errors import error_at
from fedaudit.spec.registration import Registration, parse_registration, parse_uploaded
from models.repositories import (
    ErasureRepository,
    FederationRepository,
    PendingUploadRepository,
    UnitRepository,
)
from models.tables.federations import Federation, PendingUpload
from models.values import NewFile

_ROUTE = "POST /v1/federations"


def federation_bodies(
    session: Session, rows: Sequence[Federation], *, caller: Caller
) -> list[FederationBody]:
    """Federations as the caller may see them."""
    reads = reads_data(caller)
    warnings: Mapping[str, list[str]] = {}
    if reads:
        warnings = near_copy_warnings(session, caller.project_id, [row.id for row in rows])
    return [
        of_row(
            FederationBody,
            row,
            reasons=faults,
            errors=faults,
            clients=row.profile.get("clients"),
            rows=row.profile.get("rows"),
            profile=shown_profile(row) if reads else None,
            warnings=warnings.get(row.id, []),
        )
        for row in rows
        for faults in (shown_reasons(row.reasons, caller=caller),)
    ]


def federation_body(row: Federation, *, call: Call) -> FederationBody:
    """One federation as the caller may see it."""
    with call.reading() as session:
        [body] = federation_bodies(session, [row], caller=call.caller)
    return body


Registered = Queued[Federation]


def register_path(call: Call, value: Any, idempotency_key: str | None) -> Registered:
    """Register a file below the sources folder. Raises InvalidInputError, ProblemError."""
    idempotency = IdempotentRequest.of(idempotency_key, _ROUTE, value)
    earlier = idempotency.before(call, find_federation)
    if earlier is not None:
        return earlier
    registration = parse_registration(value)
    refuse_below_floor(call.resources.settings, registration.fairness)
    path = str(registration.federation.path)
    with call.resources.open_source(call.project_id, path) as source:
        fingerprint, size = source.fingerprint, source.size
    file = NewFile(
        fingerprint=fingerprint,
        registration=registration.model_dump(mode="json"),
        file_name=PurePosixPath(path).name,
        size_bytes=size,
        storage_key=None,
    )
    return register_file(call, file, idempotency)


def register_upload(
    call: Call, registration: Registration, sent: ArrivedFile, idempotency_key: str | None
) -> Registered:
    """Keep an uploaded file, unless the project already has its content, and register it. The file
    is stored before the database refers to it, and removed if that fails. Raises InvalidInputError,
    ProblemError."""
    refuse_below_floor(call.resources.settings, registration.fairness)
    file = new_file(sent, registration)
    identity = {"registration": file.registration, "fingerprint": file.fingerprint}
    idempotency = IdempotentRequest.of(idempotency_key, _ROUTE, identity)
    earlier = idempotency.before(call, find_federation)
    if earlier is not None:
        sent.writer.abort()
        return earlier
    sent.writer.commit()
    with ExitStack() as unneeded:
        unneeded.callback(call.resources.storage.delete, sent.storage_key)
        registered = register_file(call, file, idempotency)
        if registered.row.storage_key == sent.storage_key:
            unneeded.pop_all()
    return registered


def correct_registration(call: Call, federation_id: str, value: Any) -> Registered:
    """Register a federation's file otherwise, while it is rejected or no experiment used it. Raises
    InvalidInputError, and ProblemError where the file is gone or experiments used it."""
    with call.reading() as session:
        row = find_federation(session, call.caller, federation_id)
        used = FederationRepository(session, call.project_id).used(row.id)
    if row.status in ("deleted", "erased") or row.registration is None:
        raise conflict("the federation has no file; upload it again")
    if used and row.status != "rejected":
        raise conflict(
            "experiments used the federation under its registration; to register its file "
            "otherwise all the same, upload it again"
        )
    if row.storage_key is not None and not call.resources.storage.holds(row.storage_key):
        raise conflict("the stored file is lost; upload it again")
    path = str(row.registration["federation"]["path"])
    registration = parse_uploaded(_without_place(value, path), file_name=path)
    refuse_below_floor(call.resources.settings, registration.fairness)
    stored = new_file(row, registration)
    file = replace(stored, file_name=row.file_name or row.name, size_bytes=row.size_bytes or 0)
    return register_file(call, file, IdempotentRequest.of(None, _ROUTE, None))


def _without_place(value: Any, path: str) -> Any:
    """The registration without the file's place, as `GET` shows it; another place is refused."""
    federation = value.get("federation") if isinstance(value, dict) else None
    if not isinstance(federation, dict):
        return value
    if federation.get("path", path) not in (path, None):
        message = "the file stays the same; leave the path out, or upload another file"
        raise error_at("/federation/path", message)
    return {**value, "federation": {**federation, "path": None}}


def new_file(
    stored: ArrivedFile | PendingUpload | Federation, registration: Registration
) -> NewFile:
    """A stored file as it is registered."""
    names = ("fingerprint", "file_name", "size_bytes", "storage_key")
    same = {name: getattr(stored, name) for name in names}
    return NewFile(registration=registration.model_dump(mode="json"), **same)


def register_file(
    call: Call, file: NewFile, idempotency: IdempotentRequest, *, pending: str | None = None
) -> Registered:
    """Enter a file that is stored, or below the sources folder. `pending`: the id of the upload
    that waits with this file; where the federation takes the file over, the upload is forgotten in
    the same transaction. Raises ProblemError."""
    lost = _lost_file(call, file)
    with call.writing() as session:
        if pending is not None:
            earlier = _taken_by_another(session, call.caller, pending, idempotency)
            if earlier is not None:
                return earlier
        federations = FederationRepository(session, call.project_id)
        before = federations.find(file.fingerprint)
        if before is not None:
            # Read again under a lock, so that it is not deleted meanwhile.
            before = federations.lock(before.id)
        erasures = ErasureRepository(session, call.project_id)
        if before is not None and before.status == "erased" and erasures.pending(before.id):
            raise conflict(
                "these data are being erased from this project; if you may still use them, "
                "register them once that is done",
                federation_id=before.id,
                retry_seconds=5,
            )
        owners = federations.of_owner(file.fingerprint)
        asked = parse_registration(file.registration)
        refuse_by_policies((before, owners), registration_faults, asked)
        stored_before = None if before is None else before.storage_key
        name_before = None if before is None or before.registration is None else before.name
        queued = []
        if before is not None and _is_known(before, file):
            federation = before
        else:
            attempts = call.resources.settings.max_attempts
            units = UnitRepository(session)
            unit = units.create(call.project_id, "auto", kind="profile", max_attempts=attempts)
            queued.append(unit)
            federation = federations.register(file, unit_id=unit.id)
        if file.storage_key is not None and federation.storage_key in (None, lost):
            federations.attach(federation.id, file)
            session.refresh(federation)
        if pending is not None and federation.storage_key == file.storage_key:
            PendingUploadRepository(session, call.project_id).remove(pending)
        # The same request may come twice at once: refused if it differs, else harmless.
        idempotency.claimed_before(session, call.caller, federation.id)
        if queued:
            again = before is not None
            about = {"fingerprint": file.fingerprint, "again": again}
            note(session, call.caller, "federation.registered", federation.id, **about)
        if federation.storage_key is not None and federation.storage_key == file.storage_key:
            refuse_over_stored(session, call.project_id, call.resources.settings)
    if stored_before not in (None, federation.storage_key):
        # Of a rejected or lost federation, or left by a deletion in which the storage failed.
        call.resources.storage.delete(str(stored_before))
    replaced = name_before if queued and name_before != federation.name else None
    return Registered(federation, queued, replaced=replaced)


def _taken_by_another(
    session: Session, caller: Caller, pending: str, idempotency: IdempotentRequest
) -> Registered | None:
    """The result of an equal request that was quicker; None where the upload, locked from here on,
    still waits. Raises ProblemError where it was discarded or removed meanwhile."""
    uploads = PendingUploadRepository(session, caller.project_id)
    if uploads.lock(pending, api_key_id=caller.key_id) is not None:
        return None
    found = idempotency.earlier(session, caller)
    if found is None:
        raise not_found("uploaded table; it was discarded or registered meanwhile")
    return Registered(find_federation(session, caller, found))


def _lost_file(call: Call, file: NewFile) -> str | None:
    """Where the project's file of the same content should be stored, if it is missing."""
    if file.storage_key is None:
        return None
    with call.reading() as session:
        before = FederationRepository(session, call.project_id).find(file.fingerprint)
    key = None if before is None else before.storage_key
    return None if key is None or call.resources.storage.holds(key) else key


def _is_known(before: Federation, file: NewFile) -> bool:
    """Whether the federation is already registered this way, under any name of its file."""
    if before.status not in ("ready", "profiling") or before.registration is None:
        return False

    def without_path(registration: Mapping[str, Any]) -> dict[str, Any]:
        return {**registration, "federation": {**registration["federation"], "path": None}}

    return without_path(before.registration) == without_path(file.registration)
