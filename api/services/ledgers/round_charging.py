"""What rounds and reservations cost a declared ledger: all that can be computed without its lock.

Curves of new events take up to a second, loss distributions several. Both are computed before the
ledger is locked, and are found kept under the lock. Where another round or reservation came in
between, so that other figures are needed, the lock is released and they are computed anew: a few
times, because a busy ledger might never stand still. Nothing is decided beforehand, and a body with
faults is refused under the lock.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from api.http.problems import not_found
from api.services.base.subject_names import refuse_erased
from api.shared.ledger_states import LedgerState
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.declared import SECRET_BYTES, declared_entries, drawn_hash
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import LedgerEntry
from fedaudit.privacy.declared.figures import clients_over
from fedaudit.privacy.declared.histories import (
    Charge,
    Histories,
    charge_of,
    distinct,
    keep_curves,
    leakages,
    over_budget,
    renyi_epsilons,
    steps_of,
)
from fedaudit.spec.declared_ledgers import AnyRelease, DeclaredEvent, DeclaredRound, LedgerTerms
from models.clock import utc_now
from models.identifiers import is_id
from models.repositories import DeclaredLedgerRepository, DeclaredPartRepository
from models.tables.declared_ledgers import DeclaredLedger, DeclaredReservation

_TRIES = 4
"""The last one goes on whatever has to be computed under the lock."""
_EVENT: TypeAdapter[AnyRelease] = TypeAdapter(DeclaredEvent)
_Before = TypeVar("_Before")
_Answer = TypeVar("_Answer")


def answered(
    resources: Resources,
    caller: Caller,
    ledger_id: str,
    *,
    compute: Callable[[LedgerState, bool], _Before | None],
    answer: Callable[[_Before | None, bool], _Answer | None],
) -> _Answer:
    """What `answer` decides under the lock, given what was computed beforehand, and whether this is
    the last try; None where that does not serve the ledger as it is by then.

    `compute`: for the ledger as this process remembers it; from the second try on (its second
    argument) as it is stored.
    """
    for left in reversed(range(_TRIES)):
        again = left < _TRIES - 1
        state = None
        if is_id(ledger_id):
            if not again:
                state = resources.ledgers.remembered(caller.project_id, ledger_id)
            if state is None:
                with resources.database.read() as session:
                    state = resources.ledgers.get(session, caller.project_id, ledger_id)
        found = answer(None if state is None else compute(state, again), not left)
        if found is not None:
            return found
    raise AssertionError("the last try answers")


def locked(session: Session, caller: Caller, ledger_id: str) -> DeclaredLedger:
    """The ledger, locked. Raises ProblemError where the project has none, or its names were
    erased."""
    row = None
    if is_id(ledger_id):
        row = DeclaredLedgerRepository(session, caller.project_id).lock(ledger_id, later=True)
    if row is None:
        raise not_found("ledger")
    refuse_erased(session, caller.project_id, row)
    return row


@dataclass(frozen=True)
class Prepared:
    """The events whose curves are kept, and the ledger whose loss distributions are."""

    version: tuple[int, bytes, tuple[tuple[int, datetime], ...]]
    charges: frozenset[Charge]

    @classmethod
    def of(
        cls, state: LedgerState, held: Sequence[DeclaredReservation], charges: Iterable[Charge]
    ) -> "Prepared":
        """Computes the curves of these charges."""
        found = frozenset(charges)
        if state.terms.adjacency is not None:
            keep_curves(found, state.terms.adjacency)
        return cls(_version_of(state, held), found)

    def serves(
        self, state: LedgerState, held: Sequence[DeclaredReservation], charges: Iterable[Charge]
    ) -> bool:
        """Whether the ledger in this state, and these charges, ask for nothing new."""
        if not state.terms.counts_epsilon:
            return True
        if composes_losses(state.terms) and self.version != _version_of(state, held):
            return False
        return self.charges.issuperset(charges)


def _version_of(
    state: LedgerState, held: Sequence[DeclaredReservation]
) -> tuple[int, bytes, tuple[tuple[int, datetime], ...]]:
    """Changes with every round, and with every one of these reservations."""
    return state.entries, state.head, tuple((one.round, one.reserved_at) for one in held)


def composes_losses(terms: LedgerTerms) -> bool:
    """Whether loss distributions decide who has room."""
    return terms.accountant == "pld" and terms.budget is not None


def read_event(value: dict[str, Any]) -> AnyRelease:
    """A stored event."""
    found: AnyRelease = _EVENT.validate_python(value)
    return found


def charges_of(
    state: LedgerState, held: Sequence[DeclaredReservation], events: Sequence[AnyRelease]
) -> set[Charge]:
    """What a ledger charges with these reservations and events."""
    released = [*(read_event(one.event) for one in held), *events]
    return {*state.histories.charges, *(charge_of(state.terms, one) for one in released)}


def charge_event(
    terms: LedgerTerms, histories: Histories, event: AnyRelease, names: Sequence[str]
) -> NDArray[np.int32]:
    """Charge a round to these clients, or to everyone; returns the places of the clients."""
    charge = charge_of(terms, event)
    places = histories.enter(() if charge.everyone else names)
    histories.charge(charge, places, steps=steps_of(event))
    return places


def held_by(
    terms: LedgerTerms, histories: Histories, reservations: Sequence[DeclaredReservation]
) -> Histories:
    """What was spent together with what these reservations hold."""
    found = histories.copy()
    for one in reservations:
        charge_event(terms, found, read_event(one.event), one.admitted)
    return found


def open_beside(
    session: Session, caller: Caller, ledger_id: str, numbers: Sequence[int]
) -> list[DeclaredReservation]:
    """The open reservations of other rounds than these."""
    parts = DeclaredPartRepository(session, caller.project_id)
    return [
        one for one in parts.open_reservations(ledger_id, utc_now()) if one.round not in numbers
    ]


def largest_costs(terms: LedgerTerms, histories: Histories) -> dict[str, float | None]:
    """The largest epsilon by Renyi orders, whatever the accountant, and the largest leakage; None
    of another cost, and where nothing bounds it."""
    rows, charges = histories.distinct(), histories.charges
    epsilon = leakage = np.inf
    if terms.counts_epsilon and terms.adjacency is not None and terms.delta is not None:
        found = renyi_epsilons(rows, charges, adjacency=terms.adjacency, delta=terms.delta)
        epsilon = float(found.max(initial=0.0))
    elif terms.mechanism == "laplace-l2":
        leakage = float(leakages(rows, charges).max(initial=0.0))
    figures = {"epsilon_max": epsilon, "leakage_max": leakage}
    return {name: value if np.isfinite(value) else None for name, value in figures.items()}


@dataclass(frozen=True, eq=False)
class ChargedRound:
    """One round, and its entries with their digests."""

    declared: DeclaredRound
    content_hash: str
    over_budget: int
    """Clients whom it charged beyond their budgets."""
    drawn: str | None
    """The keyed hash of who was drawn so far, in the last round of a request that drew somebody in
    secret."""
    entries: Sequence[tuple[LedgerEntry, bytes]]


class ChargedRounds:
    """New rounds of one request, one after the other, and what the ledger comes to with them."""

    def __init__(self, before: LedgerState, fresh: Sequence[DeclaredRound]) -> None:
        self.before, self.terms = before, before.terms
        self.histories = before.histories.copy()
        self.drawn = before.drawn.copy()
        self.releases = before.releases.copy()
        self.encoder = before.encoder
        self.secret = before.secret or secrets.token_bytes(SECRET_BYTES)
        self.changed: set[Charge] = set()
        """The charges that these rounds made."""
        self.rounds = [self._add(one, last=one is fresh[-1]) for one in fresh]
        self.costs = largest_costs(self.terms, self.histories)

    @property
    def has_drawn(self) -> bool:
        """Whether one of the rounds drew clients in secret."""
        return any(charge.everyone for charge in self.changed)

    def _add(self, one: DeclaredRound, *, last: bool) -> ChargedRound:
        """The `last` of a request says who was drawn so far, so that a long request hashes them
        once."""
        charge, steps = charge_of(self.terms, one.event), steps_of(one.event)
        if charge.everyone:
            # The subjects must not show who was drawn.
            self.drawn.add([*one.participants, *one.failures])
        participants = self._enter(() if charge.everyone else one.participants)
        failures = self._enter(() if charge.everyone else one.failures)
        asked = np.concatenate([participants, failures])
        self.histories.charge(charge, asked, steps=steps)
        self.changed.add(charge)
        if charge.everyone:
            over = clients_over(self.terms, self.histories)
        else:
            rows, which = distinct(self.histories.of(asked))
            over = int(over_budget(rows, self.histories.charges, self.terms)[which].sum())
        entries = declared_entries(
            self.terms,
            self.histories,
            charge,
            round_=one.round,
            steps=steps,
            participants=participants,
            failures=failures,
            releases=self.releases,
        )
        return ChargedRound(
            declared=one,
            content_hash=content_hash(one),
            over_budget=over,
            drawn=drawn_hash(self.drawn, self.secret) if last and self.has_drawn else None,
            entries=[(entry, self.encoder.digest(entry)) for entry in entries],
        )

    def _enter(self, names: Sequence[str]) -> NDArray[np.int32]:
        """The places of these subjects; there are digests and counts of new ones from now on."""
        known = len(self.histories.names)
        places = self.histories.enter(names)
        if (more := len(self.histories.names) - known) > 0:
            self.encoder = EntryEncoder(self.histories.names)
            self.releases = np.concatenate([self.releases, np.zeros(more, dtype=np.int32)])
        return places


def content_hash(one: DeclaredRound) -> str:
    """SHA-256 of all that a round declares; the order of names and groups does not matter."""
    value = one.model_dump(mode="json")
    value["participants"] = sorted(value["participants"])
    value["failures"] = sorted(value["failures"])
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
