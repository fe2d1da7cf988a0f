"""Another registration for a file that is there already, which need not be sent again."""

from typing import Any

from api.http.problems import ProblemError
from api.services.base.lookups import find_federation
from api.services.federations.disclosure_policies import refuse_below_floor
from api.services.federations.registrations import Registered, register_file
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.spec.errors import FieldError, InvalidInputError
from fedaudit.spec.registration import parse_uploaded
from models.repositories import FederationRepository
from models.tables.federations import Federation
from models.values import NewFile


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
