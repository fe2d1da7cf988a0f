"""The audit log of the key's project: who did what."""

from typing import Annotated

from fastapi import APIRouter, Query

from api.http.links import Linked
from api.openapi import problems
from api.schemas.people import AuditLogPage, AuditLogParameters, AuditLogVerification
from api.services.audit_log.audit_log_lists import audit_log_page, verify_audit_log
from api.shared.resources import Shared
from api.shared.security import Administrator

router = APIRouter(prefix="/audit-log", tags=["keys"])


@router.get("", responses=problems())
def list_audit_log(
    caller: Administrator,
    parameters: Annotated[AuditLogParameters, Query()],
    resources: Shared,
    linked: Linked[AuditLogPage],
) -> AuditLogPage:
    """Who did what in the project, newest first: ids, names and settings, never data."""
    return linked(audit_log_page(resources, caller, parameters))


@router.get("/verification", responses=problems())
def verify_log(caller: Administrator, resources: Shared) -> AuditLogVerification:
    """Computes every link anew, and compares the log with the newest signed head."""
    return verify_audit_log(resources, caller)
