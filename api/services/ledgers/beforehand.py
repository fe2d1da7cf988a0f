"""What is computed of a ledger before it is locked, and whether it still serves under the lock.

Curves of new events take up to a second, loss distributions several. Whoever posts or reserves
computes them first, and finds them kept under the lock. Where another round or reservation came in
between, so that other figures are needed, the ledger is let go of and they are computed anew: a few
times, because a busy ledger might never stand still. Nothing is decided beforehand, and a body with
faults is refused under the lock.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from api.shared.ledger_states import LedgerState
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.declared.histories import Charge, keep_curves
from fedaudit.spec.declared_ledgers import LedgerTerms
from models.identifiers import is_id
from models.tables.declared_ledgers import DeclaredReservation

TRIES = 4
"""The last one goes on whatever has to be computed under the lock."""

Version = tuple[int, bytes, tuple[tuple[int, datetime], ...]]


@dataclass(frozen=True)
class Prepared:
    """The events whose curves are kept, and the ledger whose loss distributions are."""

    version: Version
    charges: frozenset[Charge]

    @classmethod
    def of(
        cls, state: LedgerState, held: Sequence[DeclaredReservation], charges: Iterable[Charge]
    ) -> "Prepared":
        """Computes the curves of these charges."""
        found = frozenset(charges)
        if state.terms.adjacency is not None:
            keep_curves(found, state.terms.adjacency)
        return cls(version_of(state, held), found)

    def serves(
        self, state: LedgerState, held: Sequence[DeclaredReservation], charges: Iterable[Charge]
    ) -> bool:
        """Whether a ledger that stands like this, and these charges, ask for nothing new."""
        if not state.terms.counts_epsilon:
            return True
        if composes_losses(state.terms) and self.version != version_of(state, held):
            return False
        return self.charges.issuperset(charges)


def seen(
    resources: Resources, caller: Caller, ledger_id: str, *, again: bool
) -> LedgerState | None:
    """A ledger to compute for, and None where there is none: as this process remembers it, which
    nothing is decided by, or, `again`, as it stands now."""
    if not is_id(ledger_id):
        return None
    found = None if again else resources.ledgers.remembered(caller.project_id, ledger_id)
    if found is None:
        with resources.database.read() as session:
            found = resources.ledgers.get(session, caller.project_id, ledger_id)
    return found


def version_of(state: LedgerState, held: Sequence[DeclaredReservation]) -> Version:
    """Changes with every round, and with every one of these reservations."""
    reserved = tuple((one.round, one.reserved_at) for one in held)
    return state.entries, state.head, reserved


def composes_losses(terms: LedgerTerms) -> bool:
    """Whether loss distributions decide who has room."""
    return terms.accountant == "pld" and terms.budget is not None
