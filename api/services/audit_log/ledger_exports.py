"""Whoever takes the confidential ledger away is on the audit log before the first byte leaves."""

from api.shared.resources import Resources
from api.shared.security import Caller
from models.repositories import AuditLogRepository


def note_export(resources: Resources, caller: Caller, subject: str, form: str) -> None:
    """Enters an export: `form` is that of the file, or what it is called."""
    with resources.database.write() as session:
        AuditLogRepository(session, caller.project_id).enter(
            "ledger.exported", subject, by=caller.actor, form=form
        )
