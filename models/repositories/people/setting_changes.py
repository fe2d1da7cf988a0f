"""The history of what is set on federations and of gate policies."""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, assert_never

from models.audit_actions import AuditAction
from models.clock import utc_now
from models.identifiers import new_id
from models.json_text import to_json
from models.person import Actor
from models.repositories.audit_log.audit_entries import AuditLogRepository
from models.repositories.base import ScopedRepository
from models.tables.setting_changes import SettingChange
from models.values import Cursor, Page

SubjectKind = Literal["federation", "gate-policy"]
Setting = Literal["budget", "disclosure", "simulation", "gates"]


class SettingChangeRepository(ScopedRepository):
    """A project's changes, written in the transaction that makes them."""

    def add(
        self,
        subject_kind: SubjectKind,
        subject: str,
        setting: Setting,
        *,
        value: Mapping[str, Any] | None,
        changed_by: Actor,
    ) -> None:
        """Enters a change, also on the audit log, and therefore last in its transaction.

        `value` is what now holds, None where nothing does any more.
        """
        row = {
            "id": new_id(),
            "project_id": self.project_id,
            "subject_kind": subject_kind,
            "subject": subject,
            "setting": setting,
            "value": None if value is None else dict(value),
            "changed_by": changed_by.as_dict(),
            "changed_at": utc_now(),
        }
        self._insert(SettingChange, [row])
        log = AuditLogRepository(self.session, self.project_id)
        log.enter(_action(setting, value), subject, by=changed_by, **_told(setting, value))

    def list(
        self,
        subject_kind: SubjectKind,
        subject: str,
        *,
        cursor: Cursor | None = None,
        limit: int = 50,
    ) -> Page[SettingChange]:
        """Newest first; the cursor is (id,)."""
        statement = (
            self._select(SettingChange)
            .where(SettingChange.subject_kind == subject_kind, SettingChange.subject == subject)
            .order_by(SettingChange.id.desc())
            .limit(limit + 1)
        )
        if cursor is not None:
            statement = statement.where(SettingChange.id < cursor[0])
        items = self._all(statement)
        return Page(items[:limit], (items[limit - 1].id,) if len(items) > limit else None)


def _told(setting: Setting, value: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the log says of the value: gates have many words of their own, and are hashed."""
    if setting != "gates" or value is None:
        return {"value": value}
    return {"value_hash": hashlib.sha256(to_json(value).encode()).hexdigest()}


def _action(setting: Setting, value: Mapping[str, Any] | None) -> AuditAction:
    match setting:
        case "budget":
            return "budget.set"
        case "disclosure":
            return "disclosure.set"
        case "simulation":
            return "simulation.set"
        case "gates":
            return "gate-policy.deleted" if value is None else "gate-policy.set"
        case _:
            assert_never(setting)
