"""The audit log, which records changes of settings too."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import rfc8785
from sqlalchemy import bindparam, or_, select

from models.person import Actor
from models.repositories.base import Repository, ScopedRepository, table_of
from models.repositories.reports import Condition, filtered
from models.tables.accounts import AuditEntry, AuditHead
from models.values import AuditAction, AuditOrigin, Cursor, Page, utc_now

_GENESIS = b"fedaudit-audit-log-genesis-1\x00"
_LINK = b"fedaudit-audit-log-link-1\x00"


def next_link(previous: str, entry: Mapping[str, Any]) -> str:
    """The link of an entry: the one before, and the entry as canonical JSON (RFC 8785).
    Verification computes the same in `fedaudit.ledger.audit_log`, which shares no code with it."""
    return hashlib.sha256(_LINK + bytes.fromhex(previous) + rfc8785.dumps(dict(entry))).hexdigest()


_END = table_of(AuditHead).c
_HEAD = (
    select(_END.entries, _END.link)
    .where(_END.project_id == bindparam("project_id"))
    .with_for_update()
)
_LENGTHEN = (
    table_of(AuditHead)
    .update()
    .where(_END.project_id == bindparam("of_project"))
    .values(entries=bindparam("entries"), link=bindparam("link"))
)


class AuditLogRepository(ScopedRepository):
    """A project's log, written in the transaction of what it records."""

    def enter(
        self,
        action: AuditAction,
        subject: str,
        *,
        by: Actor | None,
        origin: AuditOrigin = "api",
        **details: Any,
    ) -> None:
        """Appends an entry; call it last in its transaction, without holding a lock that others
        take later: the project's next entry waits until this transaction ends."""
        head = self._head()
        actor = dict.fromkeys(("key_id", "key_name", "person")) if by is None else vars(by)
        row: dict[str, Any] = {
            "project_id": self.project_id,
            "number": head.entries + 1,
            "at": utc_now(),
            "action": action,
            "subject": subject,
            "origin": origin,
            "details": details,
            **actor,
        }
        link = next_link(head.link, AuditEntry(**row).content())
        self._insert(AuditEntry, [{**row, "link": link}])
        end = {"of_project": self.project_id, "entries": row["number"], "link": link}
        self.session.connection().execute(_LENGTHEN, end)

    def list(
        self, filters: Mapping[str, Any], *, cursor: Cursor | None = None, limit: int = 100
    ) -> Page[AuditEntry]:
        """Newest first; the cursor is (number,). `filters`: of `FILTERS`, all of which must hold.
        `actor`: a key's id or name, or a person."""
        statement = filtered(self._select(AuditEntry), filters, _CONDITIONS)
        return self._page(statement, AuditEntry.number, cursor, limit)

    def block(self, number: int, *, limit: int) -> Sequence[AuditEntry]:
        """The entries after this number, in order."""
        after = self._select(AuditEntry).where(AuditEntry.number > number)
        return self._all(after.order_by(AuditEntry.number).limit(limit))

    def head(self) -> AuditHead | None:
        """The end of the log; None before the first entry."""
        return self._one(self._select(AuditHead))

    def put_signature(self, entries: int, envelope: Mapping[str, Any]) -> None:
        """Stores a signed head in place of the one before."""
        values = {"signed_entries": entries, "envelope": envelope, "signed_at": utc_now()}
        self._set(AuditHead, self._own(AuditHead), AuditHead.signed_entries < entries, **values)

    def _head(self) -> Any:
        """The end of the log, locked until this transaction ends."""
        if known := self._rows(_HEAD, project_id=self.project_id):
            return known[0]
        first = hashlib.sha256(_GENESIS + self.project_id.encode()).hexdigest()
        empty = {"entries": 0, "link": first, "signed_entries": 0}
        unsigned = {"project_id": self.project_id, "envelope": None, "signed_at": None}
        self._insert_absent(AuditHead, {**empty, **unsigned})
        [made] = self._rows(_HEAD, project_id=self.project_id)
        return made


_ACTOR = (AuditEntry.key_id, AuditEntry.key_name, AuditEntry.person)
_CONDITIONS: dict[str, Condition] = {
    "actor": lambda actor: or_(*(name == actor for name in _ACTOR)),
    "action": lambda action: AuditEntry.action == action,
    "actions": AuditEntry.action.in_,
    "subject": lambda subject: AuditEntry.subject == subject,
    "created_after": lambda time: AuditEntry.at > time,
    "created_before": lambda time: AuditEntry.at < time,
}
FILTERS = tuple(_CONDITIONS)


class UnsignedAuditRepository(Repository):
    """Logs of all projects, for the sweeper."""

    def projects(self, limit: int) -> Sequence[str]:
        """Those with entries that no signed head covers."""
        waiting = select(AuditHead.project_id).where(AuditHead.signed_entries < AuditHead.entries)
        return list(self.session.scalars(waiting.order_by(AuditHead.project_id).limit(limit)))
