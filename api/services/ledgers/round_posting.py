"""Enter declared rounds into a ledger: all of a request, or none.

A ledger that is locked for a round makes reservations wait. So rounds are charged, and their
entries encoded and hashed, before that, for the ledger as this process saw it last; under the lock
they are appended. If another round was appended meanwhile, they are charged anew.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from api.http.problems import ProblemError
from api.services.ledgers.federation_charges import charge_federation
from api.services.ledgers.round_charging import (
    ChargedRound,
    ChargedRounds,
    Prepared,
    answered,
    charges_of,
    content_hash,
    held_by,
    locked,
    open_beside,
)
from api.shared.ledger_states import LedgerState
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.ledger.chain import link
from fedaudit.ledger.declared import declaration_of, reservations_hash
from fedaudit.ledger.rows import stored_fields
from fedaudit.privacy.declared.histories import charge_of
from fedaudit.privacy.declared.round_faults import read_rounds
from fedaudit.spec.declared_ledgers import DeclaredRound, LedgerTerms
from fedaudit.spec.errors import InvalidInputError
from models.clock import utc_now
from models.repositories import (
    DeclaredEntryRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
)
from models.repositories.declared_ledgers import OPEN, REFUSED, USED
from models.tables.declared_ledgers import DeclaredLedger, DeclaredReservation, DeclaredRoundRow
from models.values import LedgerRow

NO_RESERVATION, AS_RESERVED, MISMATCH, DESPITE_REFUSAL = "none", "reserved", "other", "refused"
Posted = tuple[LedgerTerms, list[DeclaredRoundRow]]


@dataclass(frozen=True, eq=False)
class _Beforehand:
    """What was computed of a ledger and of new rounds before it was locked."""

    rounds: list[DeclaredRound]
    prepared: Prepared
    charged: ChargedRounds
    """The new ones of the rounds. It serves the very state that it was computed for."""


def post_rounds(resources: Resources, caller: Caller, ledger_id: str, value: Any) -> Posted:
    """The ledger's terms, and the rounds of a body as they are stored, in its order.

    A round that was declared before, with the same content, stays as it is. Raises ProblemError
    without such a ledger, for a round that was declared with another content and for one that
    comes after later ones; InvalidInputError for a body with faults.
    """
    return answered(
        resources,
        caller,
        ledger_id,
        compute=lambda state, _: _compute_beforehand(resources, caller, ledger_id, state, value),
        answer=lambda before, last: _enter(resources, caller, ledger_id, value, before, last=last),
    )


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
            others = open_beside(session, caller, ledger_id, [one.round for one in rounds])
    fresh = [one for one in rounds if one.round > state.last_round]
    prepared = Prepared.of(state, (), charges_of(state, others, [one.event for one in fresh]))
    return _Beforehand(rounds, prepared, ChargedRounds(state, fresh))


def _enter(
    resources: Resources,
    caller: Caller,
    ledger_id: str,
    value: Any,
    beforehand: _Beforehand | None,
    *,
    last: bool,
) -> Posted | None:
    """The terms, and the rounds as they are stored; None, and nothing entered, where what was
    computed `beforehand` does not serve the ledger as it is by now and this is not the `last`
    try."""
    with resources.database.write() as session:
        row = locked(session, caller, ledger_id)
        state = resources.ledgers.locked(session, row)
        same = beforehand if beforehand and beforehand.charged.before is state else None
        rounds = (
            same.rounds if same else read_rounds(value, state.terms, state.histories, state.drawn)
        )
        repeated = [one.round for one in rounds if one.round <= state.last_round]
        parts = DeclaredPartRepository(session, caller.project_id)
        known = parts.rounds_of(ledger_id, repeated) if repeated else {}
        fresh = [one for one in rounds if _is_fresh(one, known, state)]
        if not fresh:
            return state.terms, [known[one.round] for one in rounds]
        others = []
        if row.federation_id is not None:
            others = open_beside(session, caller, ledger_id, [one.round for one in fresh])
        charges = charges_of(state, others, [one.event for one in fresh])
        if beforehand and not last and not beforehand.prepared.serves(state, (), charges):
            return None
        charged = same.charged if same else ChargedRounds(state, fresh)
        after, stored = _append(session, row, charged)
        if row.federation_id is not None:
            spent = after.histories
            held = held_by(after.terms, spent, others)
            charge_federation(resources, session, row, after.terms, held=held, spent=spent)
    resources.ledgers.keep(ledger_id, after)
    found = {**known, **stored}
    return after.terms, [found[one.round] for one in rounds]


def _is_fresh(one: DeclaredRound, known: dict[int, DeclaredRoundRow], state: LedgerState) -> bool:
    stored = known.get(one.round)
    if stored is not None and stored.content_hash == content_hash(one):
        return False
    if one.round > state.last_round:
        return True
    if stored is not None:
        why = (
            f"round {one.round} was declared before with another content, and a ledger is never "
            "rewritten; declare what was left out under a number of its own"
        )
    else:
        why = (
            f"round {one.round} comes after round {state.last_round}, which is in the chain; "
            f"declare it as round {state.last_round + 1} or later: what a round costs does not "
            "depend on its number, and the gap stays on record"
        )
    raise ProblemError(409, "conflict", why, round=one.round)


def _append(
    session: Session, row: DeclaredLedger, charged: ChargedRounds
) -> tuple[LedgerState, dict[int, DeclaredRoundRow]]:
    """Chain and store rounds that were charged to the ledger as it is; the state afterwards, and
    the rows of the rounds."""
    now, before, histories = utc_now(), charged.before, charged.histories
    owner = {"ledger_id": row.id, "project_id": row.project_id}
    parts = DeclaredPartRepository(session, row.project_id)
    newest = charged.rounds[-1].declared.round
    between = parts.reservations_between(row.id, after=before.last_round, upto=newest)
    reserved = {one.round: one for one in between}
    written: list[LedgerRow] = []
    rounds: list[dict[str, Any]] = []
    head, last_round = before.head, before.last_round
    for one in charged.rounds:
        number = one.declared.round
        covered = [held for at, held in reserved.items() if last_round < at <= number]
        stored = {
            **owner,
            **_round_fields(one, charged.terms, reserved.get(number), now=now),
            "reservations": reservations_hash(covered, charged.secret),
        }
        declaration = declaration_of(DeclaredRoundRow(**stored), charged.secret)
        for entry, digest in one.entries:
            head = link(head, digest, entry.clusters, declaration=declaration)
            fields = {**stored_fields(entry), "declaration": declaration}
            written.append(LedgerRow(**fields, digest=digest, link=head))
        rounds.append({**stored, "head": head.hex()})
        last_round = number
    DeclaredEntryRepository(session).insert(row.id, row.project_id, written)
    parts.add_rounds(rounds)
    used = [one["round"] for one in rounds if _holds(reserved.get(one["round"]), now)]
    if used:
        parts.end_reservations(row.id, used, USED)
    for place, (charge, tally) in enumerate(histories.tallies.items()):
        if charge in charged.changed:
            counted = {"rounds": tally.rounds, "counts": tally.counts}
            parts.put_tally({**owner, "place": place, "charge": charge.as_dict(), **counted})
    after = replace(
        before,
        histories=histories,
        drawn=charged.drawn,
        releases=charged.releases,
        entries=before.entries + len(written),
        head=head,
        last_round=last_round,
        rounds=before.rounds + len(rounds),
        encoder=charged.encoder,
        secret=charged.secret,
    )
    moved = ("rounds", "last_round", "entries", "head", "releases", "secret")
    changes: dict[str, Any] = {name: getattr(after, name) for name in moved}
    changes |= {"declared_at": now, **charged.costs}
    if len(histories.names) > len(before.histories.names):
        changes["names"] = histories.names
    if charged.has_drawn:
        changes |= {"drawn_names": after.drawn.names, "drawn_counts": after.drawn.counts}
    DeclaredLedgerRepository(session, row.project_id).change(row.id, changes)
    return after, {one["round"]: DeclaredRoundRow(**one) for one in rounds}


def _round_fields(
    one: ChargedRound, terms: LedgerTerms, reservation: DeclaredReservation | None, *, now: datetime
) -> dict[str, Any]:
    """The stored round, but for what stands in the chain behind and beside it."""
    declared = one.declared
    return {
        "round": declared.round,
        "content_hash": one.content_hash,
        "event": declared.event.model_dump(mode="json"),
        "participants": len(declared.participants),
        "failures": len(declared.failures),
        "over_budget": one.over_budget,
        "reserved": _as_reserved(declared, terms, reservation, now=now),
        "groups": declared.model_dump(mode="json", include={"groups"})["groups"] or None,
        "drawn": one.drawn,
        "declared_at": now,
    }


def _as_reserved(
    one: DeclaredRound,
    terms: LedgerTerms,
    reservation: DeclaredReservation | None,
    *,
    now: datetime,
) -> str:
    """Whether a round is what was reserved: the same event, and no client that was not admitted;
    or whether it asked clients who had been refused."""
    if reservation is None:
        return NO_RESERVATION
    asked = {*one.participants, *one.failures}
    if reservation.denied is None or charge_of(terms, one.event).everyone:
        # A round that everyone pays for is refused whoever is drawn.
        refused = reservation.state == REFUSED
    else:
        refused = not asked.isdisjoint(reservation.denied)
    if refused:
        return DESPITE_REFUSAL
    if not _holds(reservation, now):
        return NO_RESERVATION
    same = reservation.event == one.event.model_dump(mode="json")
    return AS_RESERVED if same and asked <= set(reservation.admitted) else MISMATCH


def _holds(reservation: DeclaredReservation | None, now: datetime) -> bool:
    return reservation is not None and reservation.state == OPEN and reservation.expires_at > now
