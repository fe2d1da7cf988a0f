"""Enter declared rounds into a ledger: all of a request, or none.

Whoever reserves waits while a ledger is locked for a round. So rounds are charged, and their
entries encoded and hashed, before that, for the ledger as this process saw it last; under the lock
they are chained and written. Where another round came in between, they are charged anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError, not_found
from api.services.ledgers.beforehand import TRIES, Prepared, seen
from api.services.ledgers.charged_rounds import ChargedRound, ChargedRounds, content_hash
from api.services.ledgers.federation_charges import charge_federation
from api.services.ledgers.round_reservation import charges_of, held_by, open_beside
from api.services.lookups import refuse_erased
from api.shared.ledger_states import LedgerState
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.chain import link
from fedaudit.ledger.declared import declaration_of, reservations_hash
from fedaudit.privacy.declared.histories import charge_of
from fedaudit.privacy.declared.round_faults import read_rounds
from fedaudit.spec.declared_ledgers import DeclaredRound, LedgerTerms
from fedaudit.spec.errors import InvalidInputError
from models.clock import utc_now
from models.identifiers import is_id
from models.repositories import (
    DeclaredEntryRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
)
from models.repositories.declared_ledgers import OPEN, REFUSED, USED
from models.tables.declared_ledgers import DeclaredLedger, DeclaredReservation, DeclaredRoundRow
from models.values import LedgerRow

NO_RESERVATION, AS_RESERVED, OTHERWISE, ALL_THE_SAME = "none", "reserved", "other", "refused"


def post_rounds(
    resources: Resources, caller: Caller, ledger_id: str, value: Any
) -> tuple[LedgerTerms, list[DeclaredRoundRow]]:
    """The ledger's terms, and the rounds of a body as they are stored, in its order.

    A round that was declared before, with the same content, stays as it is. Raises ProblemError
    without such a ledger, for a round that was declared with another content and for one that
    comes after later ones; InvalidInputError for a body with faults.
    """
    for left in reversed(range(TRIES)):
        state = seen(resources, caller, ledger_id, again=left < TRIES - 1)
        beforehand = None
        if state is not None:
            beforehand = _compute_beforehand(resources, caller, ledger_id, state, value)
        found = _enter(resources, caller, ledger_id, value, beforehand, last=not left)
        if found is not None:
            return found
    raise AssertionError("the last try enters the rounds")


@dataclass(frozen=True, eq=False)
class _Beforehand:
    """What was computed of a ledger and of new rounds before it was locked."""

    rounds: list[DeclaredRound]
    prepared: Prepared
    charged: ChargedRounds
    """The new ones of the rounds. It serves the very state that it was computed for."""


def _enter(
    resources: Resources,
    caller: Caller,
    ledger_id: str,
    value: Any,
    beforehand: _Beforehand | None,
    *,
    last: bool,
) -> tuple[LedgerTerms, list[DeclaredRoundRow]] | None:
    """The terms, and the rounds as they are stored; None, and nothing entered, where what was
    computed `beforehand` does not serve the ledger as it stands by now and this is not the `last`
    try."""
    with resources.database.write() as session:
        row = _locked(session, caller, ledger_id)
        state = resources.ledgers.locked(session, row)
        same = beforehand if beforehand and beforehand.charged.before is state else None
        rounds = (
            same.rounds if same else read_rounds(value, state.terms, state.histories, state.drawn)
        )
        parts = DeclaredPartRepository(session, caller.project_id)
        repeated = [one.round for one in rounds if one.round <= state.last_round]
        known = parts.rounds_of(ledger_id, repeated) if repeated else {}
        fresh = [one for one in rounds if _is_fresh(one, known, state)]
        if not fresh:
            return state.terms, [known[one.round] for one in rounds]
        others = _held_beside(session, caller, ledger_id, state, fresh)
        charges = charges_of(state, others, [one.event for one in fresh])
        if beforehand and not last and not beforehand.prepared.serves(state, (), charges):
            return None
        charged = same.charged if same else ChargedRounds(state, fresh)
        after, stored = _Posting(session, row, charged).store()
        if row.federation_id is not None:
            held = held_by(after.terms, after.histories, others)
            charge_federation(
                resources, session, row, after.terms, spent=after.histories, held=held
            )
    resources.ledgers.keep(ledger_id, after)
    found = {**known, **stored}
    return after.terms, [found[one.round] for one in rounds]


def _held_beside(
    session: Session,
    caller: Caller,
    ledger_id: str,
    state: LedgerState,
    fresh: Sequence[DeclaredRound],
) -> list[DeclaredReservation]:
    """Reservations of other rounds, which a federation's budget counts."""
    if state.terms.federation_id is None:
        return []
    return open_beside(session, caller.project_id, ledger_id, [one.round for one in fresh])


def _compute_beforehand(
    resources: Resources, caller: Caller, ledger_id: str, state: LedgerState, value: Any
) -> _Beforehand | None:
    """All but the chain's links, curves of new events and loss distributions included. None for a
    body with faults."""
    try:
        rounds = read_rounds(value, state.terms, state.histories, state.drawn)
    except InvalidInputError:
        return None
    others = []
    if state.terms.federation_id is not None:
        with resources.database.read() as session:
            others = _held_beside(session, caller, ledger_id, state, rounds)
    fresh = [one for one in rounds if one.round > state.last_round]
    charges = charges_of(state, others, [one.event for one in fresh])
    prepared = Prepared.of(state, (), charges)
    return _Beforehand(rounds, prepared, ChargedRounds(state, fresh))


def _locked(session: Session, caller: Caller, ledger_id: str) -> DeclaredLedger:
    row = None
    if is_id(ledger_id):
        row = DeclaredLedgerRepository(session, caller.project_id).lock(ledger_id, later=True)
    if row is None:
        raise not_found("ledger")
    refuse_erased(session, caller.project_id, row)
    return row


def _is_fresh(one: DeclaredRound, known: dict[int, DeclaredRoundRow], state: LedgerState) -> bool:
    stored = known.get(one.round)
    if stored is not None:
        if stored.content_hash == content_hash(one):
            return False
        raise ProblemError(
            409,
            "conflict",
            f"round {one.round} was declared before with another content, and a ledger is never "
            "rewritten; declare what was left out under a number of its own",
            round=one.round,
        )
    if one.round <= state.last_round:
        raise ProblemError(
            409,
            "conflict",
            f"round {one.round} comes after round {state.last_round}, which is in the chain; "
            f"declare it as round {state.last_round + 1} or later: what a round costs does not "
            "depend on its number, and the gap stays on record",
            round=one.round,
        )
    return True


@dataclass
class _Posting:
    """Rounds that were charged to the ledger as it stands, being chained and written."""

    session: Session
    row: DeclaredLedger
    charged: ChargedRounds

    def __post_init__(self) -> None:
        self.head = self.charged.before.head
        self.now = utc_now()
        self._written: list[LedgerRow] = []
        self._rounds: list[dict[str, Any]] = []
        self._parts = DeclaredPartRepository(self.session, self.row.project_id)
        numbers = [one.declared.round for one in self.charged.rounds]
        after = self._before = self.charged.before.last_round
        reserved = self._parts.reservations_between(self.row.id, after=after, upto=numbers[-1])
        self._reservations = {one.round: one for one in reserved}
        for one in self.charged.rounds:
            self._chain(one)
            self._before = one.declared.round

    def store(self) -> tuple[LedgerState, dict[int, DeclaredRoundRow]]:
        """Write them; the state afterwards, and the rows of the rounds."""
        charged = self.charged
        before, histories = charged.before, charged.histories
        owner = self.row.id, self.row.project_id
        DeclaredEntryRepository(self.session).insert(*owner, self._written)
        self._parts.add_rounds(self._rounds)
        numbers = [one["round"] for one in self._rounds]
        used = [one for one in numbers if _holds(self._reservations.get(one), self.now)]
        if used:
            self._parts.end_reservations(self.row.id, used, USED)
        for place, (charge, tally) in enumerate(histories.tallies.items()):
            if charge in charged.changed:
                self._parts.put_tally(
                    {
                        "ledger_id": self.row.id,
                        "place": place,
                        "project_id": self.row.project_id,
                        "charge": charge.as_dict(),
                        "rounds": tally.rounds,
                        "counts": tally.counts,
                    }
                )
        after = LedgerState(
            project_id=self.row.project_id,
            terms=charged.terms,
            histories=histories,
            drawn=charged.drawn,
            releases=charged.releases,
            entries=before.entries + len(self._written),
            head=self.head,
            last_round=numbers[-1],
            rounds=before.rounds + len(numbers),
            encoder=charged.encoder,
            secret=charged.secret,
        )
        changes: dict[str, Any] = {
            "rounds": after.rounds,
            "last_round": after.last_round,
            "entries": after.entries,
            "head": after.head,
            "releases": after.releases,
            "declared_at": self.now,
            "secret": after.secret,
            **charged.costs,
        }
        if len(histories.names) > len(before.histories.names):
            changes["names"] = histories.names
        if any(charge.everyone for charge in charged.changed):
            changes |= {"drawn_names": after.drawn.names, "drawn_counts": after.drawn.counts}
        DeclaredLedgerRepository(self.session, self.row.project_id).change(self.row.id, changes)
        return after, {one["round"]: DeclaredRoundRow(**one) for one in self._rounds}

    def _chain(self, one: ChargedRound) -> None:
        stored = self._row(one)
        declaration = declaration_of(DeclaredRoundRow(**stored), self.charged.secret)
        for entry, digest in one.entries:
            self.head = link(self.head, digest, entry.clusters, declaration=declaration)
            self._written.append(
                LedgerRow(
                    round=entry.round,
                    release=entry.release,
                    subject_kind=entry.subject_kind,
                    observer=entry.observer,
                    subjects=entry.subjects,
                    outcomes=entry.outcomes,
                    radii=entry.radii,
                    releases=entry.releases,
                    clusters=entry.clusters,
                    inputs=entry.inputs.as_dict(),
                    digest=digest,
                    link=self.head,
                    interrupted=entry.interrupted,
                    epsilons=entry.epsilons,
                    declaration=declaration,
                )
            )
        self._rounds.append({**stored, "head": self.head.hex()})

    def _row(self, one: ChargedRound) -> dict[str, Any]:
        """The stored round, but for the head behind it."""
        declared = one.declared
        return {
            "ledger_id": self.row.id,
            "round": declared.round,
            "project_id": self.row.project_id,
            "content_hash": one.content_hash,
            "event": declared.event.model_dump(mode="json"),
            "participants": len(declared.participants),
            "failures": len(declared.failures),
            "over_budget": one.over_budget,
            "reserved": self._as_reserved(declared),
            "reservations": reservations_hash(
                [
                    reserved
                    for number, reserved in self._reservations.items()
                    if self._before < number <= declared.round
                ],
                self.charged.secret,
            ),
            "groups": declared.model_dump(mode="json", include={"groups"})["groups"] or None,
            "drawn": one.drawn,
            "declared_at": self.now,
        }

    def _as_reserved(self, one: DeclaredRound) -> str:
        """Whether a round is what was reserved: the same event, and nobody who was not admitted;
        or whether it asked those who had been refused."""
        reservation = self._reservations.get(one.round)
        if reservation is None:
            return NO_RESERVATION
        asked = {*one.participants, *one.failures}
        if _refused(reservation, asked, everyone=charge_of(self.charged.terms, one.event).everyone):
            return ALL_THE_SAME
        if not _holds(reservation, self.now):
            return NO_RESERVATION
        same = reservation.event == one.event.model_dump(mode="json")
        return AS_RESERVED if same and asked <= set(reservation.admitted) else OTHERWISE


def _refused(reservation: DeclaredReservation, asked: set[str], *, everyone: bool) -> bool:
    if reservation.denied is None or everyone:
        # A round that everyone pays for is refused whoever is drawn.
        return reservation.state == REFUSED
    return not asked.isdisjoint(reservation.denied)


def _holds(reservation: DeclaredReservation | None, now: datetime) -> bool:
    return reservation is not None and reservation.state == OPEN and reservation.expires_at > now
