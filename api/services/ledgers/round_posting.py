"""Enter declared rounds into a ledger: all of a request, or none."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from api.http.problems import ProblemError, not_found
from api.services.base.subject_names import refuse_erased
from api.services.ledgers.beforehand import TRIES, Prepared, composes_losses, seen
from api.services.ledgers.federation_charges import charge_federation
from api.services.ledgers.round_reservation import charges_of, held_by, open_beside
from api.shared.ledger_states import LedgerState
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.chain import link
from fedaudit.ledger.declarations import SECRET_BYTES, declaration_of, drawn_hash
from fedaudit.ledger.declared_entries import declared_entries, distinct
from fedaudit.ledger.encoding import EntryEncoder
from fedaudit.ledger.entries import LedgerEntry
from fedaudit.privacy.declared.declared_releases import Charge, charge_of, steps_of
from fedaudit.privacy.declared.histories import (
    Histories,
    leakages,
    over_budget,
    renyi_epsilons,
)
from fedaudit.privacy.declared.ledger_figures import clients_over
from fedaudit.privacy.declared.round_faults import read_rounds
from fedaudit.spec.declared.declared_rounds import DeclaredRound
from fedaudit.spec.declared.ledger_terms import LedgerTerms
from fedaudit.spec.errors import InvalidInputError
from models.clock import utc_now
from models.identifiers import is_id
from models.repositories import (
    DeclaredEntryRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
)
from models.repositories.declared.declared_parts import USED
from models.tables.declared.declared_ledgers import DeclaredLedger
from models.tables.declared.declared_rounds import DeclaredReservation, DeclaredRoundRow
from models.values import LedgerRow

NO_RESERVATION, AS_RESERVED, OTHERWISE = "none", "reserved", "other"


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
        prepared = None
        if state is not None:
            prepared = _compute_beforehand(resources, caller, ledger_id, state, value)
        found = _enter(resources, caller, ledger_id, value, prepared if left else None)
        if found is not None:
            return found
    raise AssertionError("the last try enters the rounds")


def _enter(
    resources: Resources, caller: Caller, ledger_id: str, value: Any, prepared: Prepared | None
) -> tuple[LedgerTerms, list[DeclaredRoundRow]] | None:
    """The terms, and the rounds as they are stored; None, and nothing entered, where what was
    `prepared` does not serve the ledger as it stands by now."""
    with resources.database.write() as session:
        row = _locked(session, caller, ledger_id)
        state = resources.ledgers.locked(session, row)
        rounds = read_rounds(value, state.terms, state.histories, state.drawn)
        parts = DeclaredPartRepository(session, caller.project_id)
        repeated = [one.round for one in rounds if one.round <= state.last_round]
        known = parts.rounds_of(ledger_id, repeated) if repeated else {}
        fresh = [one for one in rounds if _is_fresh(one, known, state)]
        if not fresh:
            return state.terms, [known[one.round] for one in rounds]
        others = _held_beside(session, caller, ledger_id, state, fresh)
        charges = charges_of(state, others, [one.event for one in fresh])
        if prepared is not None and not prepared.serves(state, (), charges):
            return None
        posting = _Posting(session, row, state, [one.round for one in fresh])
        for one in fresh:
            posting.add(one, last=one is fresh[-1])
        after, stored = posting.store()
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
) -> Prepared | None:
    """Whatever takes long: curves of new events, and loss distributions. None for a body with
    faults."""
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
    if composes_losses(state.terms):
        trial = state.histories.copy()
        for one in fresh:
            asked = trial.enter([*one.participants, *one.failures])
            trial.charge(charge_of(state.terms, one.event), asked, steps=steps_of(one.event))
            over_budget(distinct(trial.of(asked))[0], trial.charges, state.terms)
    return prepared


def content_hash(one: DeclaredRound) -> str:
    """SHA-256 of all that a round declares; the order of names and groups does not matter."""
    value = one.model_dump(mode="json")
    value["participants"] = sorted(value["participants"])
    value["failures"] = sorted(value["failures"])
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


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
    """Rounds that are being entered, one after the other."""

    session: Session
    row: DeclaredLedger
    before: LedgerState
    numbers: Sequence[int]
    """Those of the rounds to come."""
    histories: Histories = field(init=False)
    _written: list[LedgerRow] = field(default_factory=list)
    _rounds: list[dict[str, Any]] = field(default_factory=list)
    _changed: set[Charge] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.histories = self.before.histories.copy()
        self.drawn = self.before.drawn.copy()
        self.releases = self.before.releases.copy()
        self.head = self.before.head
        self.now = utc_now()
        self._encoder = self.before.encoder
        self._secret = self.row.secret or secrets.token_bytes(SECRET_BYTES)
        self._has_drawn = False
        parts = DeclaredPartRepository(self.session, self.row.project_id)
        held = parts.open_reservations(self.row.id, self.now, rounds=self.numbers)
        self._reservations = {one.round: one for one in held}

    @property
    def terms(self) -> LedgerTerms:
        """Those of the ledger."""
        return self.before.terms

    def add(self, one: DeclaredRound, *, last: bool) -> None:
        """Charge a round and chain its entries with what it declares besides.

        The `last` of a request says who was drawn so far, so that a long request hashes them once.
        """
        known = len(self.histories.names)
        charge, steps = charge_of(self.terms, one.event), steps_of(one.event)
        if charge.everyone:
            # Nobody may read from the subjects who was drawn.
            self.drawn.add([*one.participants, *one.failures])
            self._has_drawn = True
        participants = self.histories.enter(() if charge.everyone else one.participants)
        failures = self.histories.enter(() if charge.everyone else one.failures)
        if len(self.histories.names) > known:
            self._encoder = EntryEncoder(self.histories.names)
            grown = np.zeros(len(self.histories.names), dtype=np.int32)
            grown[: len(self.releases)] = self.releases
            self.releases = grown
        asked = np.concatenate([participants, failures])
        self.histories.charge(charge, asked, steps=steps)
        self._changed.add(charge)
        over = clients_over(self.terms, self.histories) if charge.everyone else self._over(asked)
        drawn = drawn_hash(self.drawn, self._secret) if last and self._has_drawn else None
        stored = self._row(one, over=over, drawn=drawn)
        declaration = declaration_of(DeclaredRoundRow(**stored), self._secret)
        for entry in declared_entries(
            self.terms,
            self.histories,
            charge,
            round_=one.round,
            steps=steps,
            participants=participants,
            failures=failures,
            releases=self.releases,
        ):
            self._chain(entry, self._encoder, declaration)
        self._rounds.append({**stored, "head": self.head.hex()})

    def store(self) -> tuple[LedgerState, dict[int, DeclaredRoundRow]]:
        """Write what was added; the state afterwards, and the rows of the rounds."""
        owner = self.row.id, self.row.project_id
        parts = DeclaredPartRepository(self.session, self.row.project_id)
        DeclaredEntryRepository(self.session).insert(*owner, self._written)
        parts.add_rounds(self._rounds)
        numbers = [one["round"] for one in self._rounds]
        if self._reservations.keys() & set(numbers):
            parts.end_reservations(self.row.id, numbers, USED)
        for place, (charge, tally) in enumerate(self.histories.tallies.items()):
            if charge in self._changed:
                parts.put_tally(
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
            terms=self.terms,
            histories=self.histories,
            drawn=self.drawn,
            releases=self.releases,
            entries=self.before.entries + len(self._written),
            head=self.head,
            last_round=numbers[-1],
            rounds=self.before.rounds + len(numbers),
            encoder=self._encoder,
        )
        changes: dict[str, Any] = {
            "rounds": after.rounds,
            "last_round": after.last_round,
            "entries": after.entries,
            "head": after.head,
            "releases": after.releases,
            "declared_at": self.now,
            "secret": self._secret,
            **largest_costs(after),
        }
        if len(self.histories.names) > len(self.before.histories.names):
            changes["names"] = self.histories.names
        if any(charge.everyone for charge in self._changed):
            changes |= {"drawn_names": self.drawn.names, "drawn_counts": self.drawn.counts}
        DeclaredLedgerRepository(self.session, self.row.project_id).change(self.row.id, changes)
        return after, {one["round"]: DeclaredRoundRow(**one) for one in self._rounds}

    def _chain(self, entry: LedgerEntry, encoder: EntryEncoder, declaration: bytes) -> None:
        digest = encoder.digest(entry)
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

    def _over(self, asked: NDArray[np.int32]) -> int:
        """How many of those asked have now spent more than the budget of a client."""
        rows, which = distinct(self.histories.of(asked))
        return int(over_budget(rows, self.histories.charges, self.terms)[which].sum())

    def _row(self, one: DeclaredRound, *, over: int, drawn: str | None) -> dict[str, Any]:
        """The stored round, but for the head behind it."""
        groups = one.model_dump(mode="json")["groups"]
        return {
            "ledger_id": self.row.id,
            "round": one.round,
            "project_id": self.row.project_id,
            "content_hash": content_hash(one),
            "event": one.event.model_dump(mode="json"),
            "participants": len(one.participants),
            "failures": len(one.failures),
            "over_budget": over,
            "reserved": _as_reserved(one, self._reservations.get(one.round)),
            "groups": groups or None,
            "drawn": drawn,
            "declared_at": self.now,
        }


def largest_costs(state: LedgerState) -> dict[str, float | None]:
    """What lists show: the largest epsilon by Renyi orders, and the largest leakage."""
    terms, rows = state.terms, state.histories.distinct()
    charges = state.histories.charges
    epsilon: float | None = None
    leakage: float | None = None
    if terms.counts_epsilon and terms.adjacency is not None and terms.delta is not None:
        found = renyi_epsilons(rows, charges, adjacency=terms.adjacency, delta=terms.delta)
        epsilon = _finite(found)
    elif terms.mechanism == "laplace-l2":
        leakage = _finite(leakages(rows, charges))
    return {"epsilon_max": epsilon, "leakage_max": leakage}


def _finite(values: NDArray[np.float64]) -> float | None:
    most = float(values.max(initial=0.0))
    return most if np.isfinite(most) else None


def _as_reserved(one: DeclaredRound, reservation: DeclaredReservation | None) -> str:
    """Whether a round is what was reserved: the same event, and nobody who was not admitted."""
    if reservation is None:
        return NO_RESERVATION
    same = reservation.event == one.event.model_dump(mode="json")
    asked: Sequence[str] = [*one.participants, *one.failures]
    return AS_RESERVED if same and set(asked) <= set(reservation.admitted) else OTHERWISE
