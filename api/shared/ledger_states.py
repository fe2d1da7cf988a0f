"""What declared ledgers came to so far, kept in memory as long as it is what the database says."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.privacy.declared.figures import Drawn
from fedaudit.privacy.declared.histories import Histories
from fedaudit.reports.declared.ledger_material import stored_drawn, stored_histories
from fedaudit.spec.declared_ledgers import LedgerTerms
from models.repositories import DeclaredLedgerRepository, DeclaredPartRepository
from models.tables.ledger import DeclaredLedger

_KEPT = 64


@dataclass(frozen=True, eq=False)
class LedgerState:
    """One ledger after so many entries. Nobody changes it: a round makes another."""

    project_id: str
    terms: LedgerTerms
    histories: Histories
    drawn: Drawn
    releases: NDArray[np.int32]
    """[subjects]: the entries that charged each."""
    entries: int
    head: bytes
    last_round: int
    rounds: int
    encoder: EntryEncoder
    """Of entries with these names."""
    secret: bytes | None
    """The key of its rounds' declarations; None before the first."""


class LedgerStates:
    """Those used last; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: OrderedDict[str, LedgerState] = OrderedDict()

    def get(self, session: Session, project_id: str, ledger_id: str) -> LedgerState | None:
        """The ledger as it stands in the caller's transaction; None where the project has none."""
        standing = DeclaredLedgerRepository(session, project_id).standing(ledger_id)
        if standing is None:
            return None
        with self._lock:
            kept = self._states.get(ledger_id)
        if kept is not None and (kept.entries, kept.head) == standing:
            return kept
        row = DeclaredLedgerRepository(session, project_id).get(ledger_id)
        if row is None:
            return None
        found = read_state(session, row)
        # Postgres reads each statement by itself: a round may have come in between.
        if (found.entries, found.head) == standing:
            self.keep(ledger_id, found)
        return found

    def locked(self, session: Session, row: DeclaredLedger) -> LedgerState:
        """The state of a ledger whose row is locked in the caller's transaction."""
        with self._lock:
            kept = self._states.get(row.id)
        if kept is not None and (kept.entries, kept.head) == (row.entries, bytes(row.head)):
            return kept
        return read_state(session, row)

    def keep(self, ledger_id: str, state: LedgerState) -> None:
        """Remember a state that is committed."""
        with self._lock:
            self._states[ledger_id] = state
            self._states.move_to_end(ledger_id)
            while len(self._states) > _KEPT:
                self._states.popitem(last=False)

    def forget(self, ledger_id: str) -> None:
        """Keep nothing of a ledger."""
        with self._lock:
            self._states.pop(ledger_id, None)


def read_state(session: Session, row: DeclaredLedger) -> LedgerState:
    """The state of a stored ledger."""
    tallies = DeclaredPartRepository(session, row.project_id).tallies(row.id)
    return LedgerState(
        project_id=row.project_id,
        terms=LedgerTerms.model_validate(row.terms),
        histories=stored_histories(row.names, tallies),
        drawn=stored_drawn(row),
        releases=row.releases,
        entries=row.entries,
        head=bytes(row.head),
        last_round=row.last_round,
        rounds=row.rounds,
        encoder=EntryEncoder(row.names),
        secret=None if row.secret is None else bytes(row.secret),
    )
