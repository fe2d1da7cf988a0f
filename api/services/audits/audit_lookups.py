"""The audits of the caller's project, and their reports."""

from sqlalchemy.orm import Session

from api.http.problems import ProblemError, not_found
from api.shared.security import Caller
from models.identifiers import is_id
from models.repositories import AuditRepository
from models.tables.reports import PredictionAudit


def find_audit(session: Session, caller: Caller, audit_id: str) -> PredictionAudit:
    """Raises ProblemError where the caller's project has no such audit."""
    found = None
    if is_id(audit_id):
        found = AuditRepository(session, caller.project_id).get(audit_id)
    if found is None:
        raise not_found("audit")
    return found


def find_audited(session: Session, caller: Caller, audit_id: str) -> PredictionAudit:
    """An audit with a report. Raises ProblemError where there is none."""
    found = find_audit(session, caller, audit_id)
    if found.report is None:
        raise ProblemError(404, "not-found", f"the audit has no report: it is {found.status}")
    return found
