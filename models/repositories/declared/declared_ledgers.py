"""Declared ledgers: created once, locked while a round is entered."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import Update, bindparam, or_, select, update
from sqlalchemy.orm import Session, defer

from models.clock import utc_now
from models.repositories.base import ScopedRepository
from models.tables.declared.declared_ledgers import DeclaredLedger
from models.values import Cursor, Page

_LARGE = (
    DeclaredLedger.terms,
    DeclaredLedger.names,
    DeclaredLedger.releases,
    DeclaredLedger.drawn_names,
    DeclaredLedger.drawn_counts,
)
_OF_PROJECT = (
    DeclaredLedger.id == bindparam("ledger_id"),
    DeclaredLedger.project_id == bindparam("project_id"),
)
_LOCKED = select(DeclaredLedger).where(*_OF_PROJECT).with_for_update(key_share=True)
_LOCKED_LATER = _LOCKED.options(*(defer(column) for column in _LARGE))
_STANDING = select(DeclaredLedger.entries, DeclaredLedger.head).where(*_OF_PROJECT)


class DeclaredLedgerRepository(ScopedRepository):
    """The ledgers of one project."""

    def add(self, row: DeclaredLedger) -> None:
        """Stores a new ledger."""
        self.session.add(row)
        self.session.flush()

    def get(self, ledger_id: str) -> DeclaredLedger | None:
        """One ledger."""
        return self._one(self._select(DeclaredLedger).where(DeclaredLedger.id == ledger_id))

    def lock(self, ledger_id: str, *, later: bool = False) -> DeclaredLedger | None:
        """One ledger, to which nobody else adds a round until the transaction ends.

        `later`: what is large of it, or never changes, is read once it is asked for, which must be
        within the transaction. For those that mostly have it in memory already.
        """
        statement = _LOCKED_LATER if later else _LOCKED
        return self._one(statement, ledger_id=ledger_id, project_id=self.project_id)

    def standing(self, ledger_id: str) -> tuple[int, bytes] | None:
        """How many entries a ledger has, and its head."""
        asked = {"ledger_id": ledger_id, "project_id": self.project_id}
        found = self.session.execute(_STANDING, asked).first()
        return None if found is None else (found[0], bytes(found[1]))

    def change(self, ledger_id: str, values: Mapping[str, Any]) -> None:
        """Overwrites where a ledger stands."""
        mine = {"changed_id": ledger_id, "changed_project_id": self.project_id}
        self._execute(_change(tuple(values)), {**values, **mine})

    def list(self, *, cursor: Cursor | None, limit: int) -> Page[DeclaredLedger]:
        """Newest first."""
        statement = self._select(DeclaredLedger)
        if cursor is not None:
            statement = statement.where(DeclaredLedger.id < cursor[0])
        rows = self._all(statement.order_by(DeclaredLedger.id.desc()).limit(limit + 1))
        more = len(rows) > limit
        return Page(rows[:limit], (rows[limit - 1].id,) if more else None)


@cache
def _change(names: tuple[str, ...]) -> Update:
    return (
        update(DeclaredLedger)
        .where(
            DeclaredLedger.id == bindparam("changed_id"),
            DeclaredLedger.project_id == bindparam("changed_project_id"),
        )
        .values({name: bindparam(name) for name in names})
    )


def unsigned_ledgers(session: Session, *, seconds: float, limit: int) -> Sequence[DeclaredLedger]:
    """Ledgers of all projects with entries that no signature covers, and none made just now."""
    before = utc_now() - timedelta(seconds=seconds)
    return list(
        session.scalars(
            select(DeclaredLedger)
            .where(
                DeclaredLedger.entries != DeclaredLedger.signed_entries,
                or_(DeclaredLedger.signed_at.is_(None), DeclaredLedger.signed_at < before),
            )
            .order_by(DeclaredLedger.signed_at, DeclaredLedger.id)
            .limit(limit)
        )
    )
