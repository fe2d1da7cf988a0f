"""API keys, the audit log, and the keys that the service signs with."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.http.bodies import JsonBody, validated
from api.http.problems import not_found
from api.openapi import problems, request_body
from api.schemas.people import (
    AuditLogPage,
    AuditLogParameters,
    AuditLogVerification,
    KeyBody,
    KeyList,
    KeyRequest,
    KeyRotationParameters,
    NewKeyBody,
)
from api.schemas.reports import SigningKeyBody, SigningKeyList
from api.services.audit_log import audit_log_page, verify_audit_log
from api.services.lookups import found_by, note
from api.shared.resources import Shared
from api.shared.security import Administrator, ReportsReader
from models.identifiers import is_id
from models.repositories import ApiKeyRepository, SigningKeyRepository

router = APIRouter(tags=["keys"])


@router.get("/api-keys", responses=problems())
def list_keys(caller: Administrator, resources: Shared) -> KeyList:
    """Every key of the project, without its secret."""
    with resources.database.read() as session:
        keys = ApiKeyRepository(session).list(caller.project_id)
    return KeyList(items=[KeyBody.of(key) for key in keys])


@router.post(
    "/api-keys", status_code=201, responses=problems(415), openapi_extra=request_body(KeyRequest)
)
def create_key(caller: Administrator, value: JsonBody, resources: Shared) -> NewKeyBody:
    """Make a key of this project; its secret is shown this once."""
    asked = validated(KeyRequest, value)
    with resources.database.write() as session:
        key, plain = ApiKeyRepository(session).create(
            project_id=caller.project_id,
            name=asked.name,
            scopes=list(dict.fromkeys(asked.scopes)),
            person=None if asked.person is None else asked.person.stored(),
            created_by=caller.actor,
        )
        person = None if key.person is None else key.person["name"]
        about = {"name": key.name, "scopes": list(key.scopes), "person": person}
        note(session, caller, "key.created", key.id, **about)
    return NewKeyBody(**KeyBody.of(key).model_dump(), key=plain)


@router.post("/api-keys/{key_id}/rotation", responses=problems(404))
def rotate_key(
    key_id: str,
    caller: Administrator,
    parameters: Annotated[KeyRotationParameters, Query()],
    resources: Shared,
) -> NewKeyBody:
    """Replace a key's secret; the new one is shown this once.

    The old one opens the key too until `previous_until`, and so do the sessions at the pages that
    were begun with it. A secret that was still let in beside the replaced one ends at once.
    """
    seconds = parameters.overlap_seconds
    with resources.database.write() as session:
        keys = ApiKeyRepository(session)
        key, plain = found_by(
            lambda id_: keys.rotate(caller.project_id, id_, overlap=timedelta(seconds=seconds)),
            key_id,
            "key in force",
        )
        note(session, caller, "key.rotated", key_id, overlap_seconds=seconds)
    return NewKeyBody(**KeyBody.of(key).model_dump(), key=plain)


@router.delete("/api-keys/{key_id}", status_code=204, responses=problems(404))
def revoke_key(key_id: str, caller: Administrator, resources: Shared) -> Response:
    """End a key at once."""
    with resources.database.write() as session:
        if not (is_id(key_id) and ApiKeyRepository(session).revoke(caller.project_id, key_id)):
            raise not_found("key in force")
        note(session, caller, "key.revoked", key_id)
    return Response(status_code=204)


@router.get("/audit-log", responses=problems())
def list_audit_log(
    caller: Administrator, parameters: Annotated[AuditLogParameters, Query()], resources: Shared
) -> AuditLogPage:
    """Who did what in the project, newest first: ids, names and settings, never data."""
    return audit_log_page(resources, caller, parameters)


@router.get("/audit-log/verification", responses=problems())
def verify_log(caller: Administrator, resources: Shared) -> AuditLogVerification:
    """Computes every link anew, and compares the log with the newest signed head."""
    return verify_audit_log(resources, caller)


@router.get("/signing-keys", responses=problems())
def list_signing_keys(_caller: ReportsReader, resources: Shared) -> SigningKeyList:
    """Every public key, also the retired ones, oldest first.

    A signature is trusted only as far as the channel by which its key was received.
    """
    with resources.database.read() as session:
        keys = SigningKeyRepository(session).list()
    return SigningKeyList(items=[SigningKeyBody.of(key) for key in keys])
