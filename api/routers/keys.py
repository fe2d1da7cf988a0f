"""API keys, the audit log, and the keys that the service signs with."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.http.answers import Linked
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
from api.shared.resources import Shared
from api.shared.security import Administrator, ReportsReader
from models.identifiers import is_id
from models.repositories import ApiKeyRepository, AuditLogRepository, SigningKeyRepository

router = APIRouter(prefix="/api-keys", tags=["keys"])


@router.get("", responses=problems())
def list_keys(caller: Administrator, resources: Shared) -> KeyList:
    """Every key of the project, without its secret."""
    with resources.database.read() as session:
        keys = ApiKeyRepository(session).list(caller.project_id)
    return KeyList(items=[KeyBody.of(key) for key in keys])


@router.post("", status_code=201, responses=problems(415), openapi_extra=request_body(KeyRequest))
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
        AuditLogRepository(session, caller.project_id).enter(
            "key.created",
            key.id,
            by=caller.actor,
            name=key.name,
            scopes=list(key.scopes),
            person=None if key.person is None else key.person["name"],
        )
    return NewKeyBody(**KeyBody.of(key).model_dump(), key=plain)


@router.post("/{key_id}/rotation", responses=problems(404))
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
    overlap = timedelta(seconds=parameters.overlap_seconds)
    with resources.database.write() as session:
        rotated = None
        if is_id(key_id):
            keys = ApiKeyRepository(session)
            rotated = keys.rotate(caller.project_id, key_id, overlap=overlap)
        if rotated is None:
            raise not_found("key in force")
        AuditLogRepository(session, caller.project_id).enter(
            "key.rotated", key_id, by=caller.actor, overlap_seconds=parameters.overlap_seconds
        )
        key, plain = rotated
    return NewKeyBody(**KeyBody.of(key).model_dump(), key=plain)


@router.delete("/{key_id}", status_code=204, responses=problems(404))
def revoke_key(key_id: str, caller: Administrator, resources: Shared) -> Response:
    """End a key at once."""
    with resources.database.write() as session:
        if not (is_id(key_id) and ApiKeyRepository(session).revoke(caller.project_id, key_id)):
            raise not_found("key in force")
        AuditLogRepository(session, caller.project_id).enter("key.revoked", key_id, by=caller.actor)
    return Response(status_code=204)


audit_log_router = APIRouter(prefix="/audit-log", tags=["keys"])


@audit_log_router.get("", responses=problems())
def list_audit_log(
    caller: Administrator,
    parameters: Annotated[AuditLogParameters, Query()],
    resources: Shared,
    linked: Linked[AuditLogPage],
) -> AuditLogPage:
    """Who did what in the project, newest first: ids, names and settings, never data."""
    return linked(audit_log_page(resources, caller, parameters))


@audit_log_router.get("/verification", responses=problems())
def verify_log(caller: Administrator, resources: Shared) -> AuditLogVerification:
    """Computes every link anew, and compares the log with the newest signed head."""
    return verify_audit_log(resources, caller)


signing_keys_router = APIRouter(prefix="/signing-keys", tags=["keys"])


@signing_keys_router.get("", responses=problems())
def list_signing_keys(_caller: ReportsReader, resources: Shared) -> SigningKeyList:
    """Every public key, also the retired ones, oldest first.

    What they sign is trusted only as far as the way by which a key was received.
    """
    with resources.database.read() as session:
        keys = SigningKeyRepository(session).list()
    return SigningKeyList(items=[SigningKeyBody.of(key) for key in keys])
