"""Declared ledgers: created once, locked while a round is entered."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, bindparam, or_, select
from sqlalchemy.orm import Session, defer

from models.repositories.base import PartRepository, RowRepository
from models.tables.ledger import DeclaredLedger, DeclaredReservation, DeclaredRoundRow
from models.values import Cursor, Page, utc_now

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


class DeclaredLedgerRepository(RowRepository[DeclaredLedger]):
    """The ledgers of one project."""

    _table = DeclaredLedger

    def lock(self, id: str, *, later: bool = False) -> DeclaredLedger | None:
        """One ledger, to which no other transaction adds a round until this one ends.

        `later`: what is large of it, or never changes, is read once it is asked for, which must be
        within the transaction. For those that mostly have it in memory already.
        """
        statement = _LOCKED_LATER if later else _LOCKED
        return self._one(statement, ledger_id=id, project_id=self.project_id)

    def standing(self, ledger_id: str) -> tuple[int, bytes] | None:
        """How many entries a ledger has, and its head."""
        asked = {"ledger_id": ledger_id, "project_id": self.project_id}
        found = self.session.execute(_STANDING, asked).first()
        return None if found is None else (found[0], bytes(found[1]))

    def change(self, ledger_id: str, values: Mapping[str, Any]) -> None:
        """Overwrites the state of a ledger."""
        self._update(ledger_id, **values)

    def list(self, *, cursor: Cursor | None, limit: int) -> Page[DeclaredLedger]:
        """Newest first."""
        return self._page(self._select(DeclaredLedger), DeclaredLedger.id, cursor, limit)


def unsigned_ledgers(session: Session, *, seconds: float, limit: int) -> Sequence[DeclaredLedger]:
    """Ledgers of all projects with entries that no signature covers, and none made just now."""
    before = utc_now() - timedelta(seconds=seconds)
    signed_at, entries = DeclaredLedger.signed_at, DeclaredLedger.entries
    unsigned = select(DeclaredLedger).where(
        entries != DeclaredLedger.signed_entries, or_(signed_at.is_(None), signed_at < before)
    )
    return session.scalars(unsigned.order_by(signed_at, DeclaredLedger.id).limit(limit)).all()


OPEN, USED, RELEASED, REFUSED = "open", "used", "released", "refused"
_HELD = and_(DeclaredReservation.state == OPEN, DeclaredReservation.expires_at > bindparam("now"))
_HELD_OR_LATER = (
    select(DeclaredReservation)
    .where(
        DeclaredReservation.ledger_id == bindparam("ledger_id"),
        DeclaredReservation.project_id == bindparam("project_id"),
        or_(_HELD, DeclaredReservation.round > bindparam("after")),
    )
    .order_by(DeclaredReservation.round)
)


class DeclaredPartRepository(PartRepository):
    """Everything else."""

    _owner = "ledger_id"

    def add_rounds(self, rows: Sequence[dict[str, Any]]) -> None:
        """Stores rounds."""
        self._insert(DeclaredRoundRow, rows)

    def rounds(self, ledger_id: str, *, upto: int) -> list[DeclaredRoundRow]:
        """The rounds up to one, in order."""
        statement = self._select(DeclaredRoundRow, ledger_id).where(DeclaredRoundRow.round <= upto)
        return self._all(statement.order_by(DeclaredRoundRow.round))

    def newest_rounds(
        self, ledger_id: str, *, below: int | None, limit: int
    ) -> list[DeclaredRoundRow]:
        """Those with the highest numbers, below one where it is given; newest first."""
        statement = self._select(DeclaredRoundRow, ledger_id)
        if below is not None:
            statement = statement.where(DeclaredRoundRow.round < below)
        return self._all(statement.order_by(DeclaredRoundRow.round.desc()).limit(limit))

    def numbers(self, ledger_id: str) -> list[int]:
        """Those of all rounds, ascending."""
        statement = self._select(DeclaredRoundRow, ledger_id).order_by(DeclaredRoundRow.round)
        return list(self.session.scalars(statement.with_only_columns(DeclaredRoundRow.round)))

    def rounds_of(self, ledger_id: str, numbers: Sequence[int]) -> dict[int, DeclaredRoundRow]:
        """Those of these rounds that were declared."""
        statement = self._select(DeclaredRoundRow, ledger_id)
        found = self._all(statement.where(DeclaredRoundRow.round.in_(numbers)))
        return {row.round: row for row in found}

    def canaries(self, ledger_id: str) -> dict[str, Any] | None:
        """What the newest round with canaries holds of them; None without one."""
        found = self._select(DeclaredRoundRow, ledger_id)
        found = found.where(DeclaredRoundRow.canaries.is_not(None))
        newest = self._all(found.order_by(DeclaredRoundRow.round.desc()).limit(1))
        return newest[0].canaries if newest else None

    def reservations(self, ledger_id: str) -> list[DeclaredReservation]:
        """All, in the order of their rounds."""
        statement = self._select(DeclaredReservation, ledger_id)
        return self._all(statement.order_by(DeclaredReservation.round))

    def held_or_later(
        self, ledger_id: str, *, after: int, now: datetime
    ) -> list[DeclaredReservation]:
        """Those that hold, and whatever was reserved last for each round behind one, in their
        order."""
        mine = {"ledger_id": ledger_id, "project_id": self.project_id}
        return self._all(_HELD_OR_LATER, **mine, after=after, now=now)

    def put_reservation(self, row: dict[str, Any]) -> None:
        """Stores a reservation, in the place of an earlier one of its round."""
        self._put(DeclaredReservation, row)

    def end_reservations(self, ledger_id: str, numbers: Sequence[int], state: str) -> int:
        """Ends those of these rounds that are open; returns how many."""
        these = DeclaredReservation.round.in_(numbers)
        open_ones = (DeclaredReservation.ledger_id == ledger_id, DeclaredReservation.state == OPEN)
        return self._set_rows(DeclaredReservation, *open_ones, these, state=state)
