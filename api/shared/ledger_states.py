"""What declared ledgers came to so far, kept in memory as long as it is what the database says."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from fedaudit.ledger.columns import columns_of_rows
from fedaudit.ledger.declared import ChargedEntries
from fedaudit.ledger.encoding import EntryEncoder, genesis
from fedaudit.privacy.declared.figures import Drawn, drawn_clients
from fedaudit.privacy.declared.histories import Histories
from fedaudit.spec.declared_ledgers import LedgerTerms
from models.repositories import DeclaredLedgerRepository, DeclaredPartRepository, LedgerRepository
from models.tables.ledger import DeclaredLedger

_KEPT = 64


class AlteredEntriesError(ProblemError):
    """Stored entries are missing, or not of their ledger's terms: nothing follows from them."""

    def __init__(self) -> None:
        detail = "entries of this ledger were altered; its verification says which"
        super().__init__("conflict", detail)


@dataclass(frozen=True, eq=False)
class LedgerState:
    """One ledger after so many entries. It never changes: a round makes another."""

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
    """Encoder of entries with these names."""
    secret: bytes | None
    """The key of its rounds' declarations; None before the first."""


class LedgerStates:
    """Those used last; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: OrderedDict[str, LedgerState] = OrderedDict()

    def get(self, session: Session, project_id: str, ledger_id: str) -> LedgerState | None:
        """The ledger in the caller's transaction; None where the project has none."""
        ledgers = DeclaredLedgerRepository(session, project_id)
        with self._lock:
            kept = self._states.get(ledger_id)
        if kept is not None and (kept.entries, kept.head) == ledgers.standing(ledger_id):
            return kept
        row = ledgers.get(ledger_id)
        if row is None:
            return None
        found = _read_state(session, row, kept)
        self.keep(ledger_id, found)
        return found

    def locked(self, session: Session, row: DeclaredLedger) -> LedgerState:
        """The state of a ledger whose row is locked in the caller's transaction."""
        with self._lock:
            kept = self._states.get(row.id)
        if kept is not None and (kept.entries, kept.head) == (row.entries, bytes(row.head)):
            return kept
        return _read_state(session, row, kept)

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


def _read_state(session: Session, row: DeclaredLedger, kept: LedgerState | None) -> LedgerState:
    """The state of a stored ledger: what its entries charge, or what those behind a `kept` state
    add where the chain goes on from it. Raises AlteredEntriesError."""
    terms, histories, last_round = LedgerTerms.model_validate(row.terms), Histories(row.names), 0
    place = (0, genesis(row.id))
    if kept is not None and _goes_on(session, row, kept):
        histories, last_round = kept.histories.copy(), kept.last_round
        histories.enter(row.names)
        place = (kept.entries, kept.head)
    charged = ChargedEntries(terms, histories, last_round=last_round)
    entries = LedgerRepository(session, row.project_id)
    try:
        for rows in entries.blocks(row.id, last_round + 1, row.last_round):
            for some in columns_of_rows(rows):
                charged.read(some)
            place = (place[0] + len(rows), rows[-1].link)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError):
        raise AlteredEntriesError from None
    if place != (row.entries, bytes(row.head)):
        raise AlteredEntriesError
    return LedgerState(
        terms=terms,
        histories=histories,
        drawn=drawn_clients(row.drawn_names, row.drawn_counts),
        releases=row.releases,
        entries=row.entries,
        head=bytes(row.head),
        last_round=row.last_round,
        rounds=row.rounds,
        encoder=EntryEncoder(row.names, salt=row.ledger_salt),
        secret=None if row.secret is None else bytes(row.secret),
    )


def _goes_on(session: Session, row: DeclaredLedger, kept: LedgerState) -> bool:
    """Whether the chain of a ledger passes through the head of a state, with the same names."""
    known = kept.histories.names
    if not kept.entries <= row.entries or row.names[: len(known)] != known:
        return False
    parts = DeclaredPartRepository(session, row.project_id)
    passed = parts.rounds_of(row.id, [kept.last_round]).get(kept.last_round)
    return passed is not None and passed.head == kept.head.hex()
