"""Enter declared rounds into a ledger, all of a request or none, and compute what they cost.

A ledger that is locked for a round makes reservations wait. Curves of new events take up to a
second, loss distributions several: both are computed before the ledger is locked, and are found
kept under the lock, unless another round or reservation came in between and asks for others.
Nothing is decided beforehand, and a body with faults is refused under the lock.
"""

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from api.http.problems import conflict
from api.services.budgets import refuse_exact_figures
from api.services.ledgers.federation_charges import charge_federation
from api.services.lookups import found_by, refuse_erased
from api.shared.ledger_states import LedgerState
from api.shared.security import Call, Caller
from fedaudit.ledger.declared import (
    SECRET_BYTES,
    declaration_of,
    declared_entries,
    drawn_hash,
    reservations_hash,
)
from fedaudit.ledger.encoding import links_of
from fedaudit.privacy.declared.canary_evidence import CanaryEvidence
from fedaudit.privacy.declared.figures import clients_over, read_rounds
from fedaudit.privacy.declared.histories import (
    Histories,
    charge_of,
    distinct,
    largest_leakage,
    over_budget,
    renyi_epsilons,
)
from fedaudit.spec.declared_ledgers import (
    AnyRelease,
    DeclaredEvent,
    DeclaredRound,
    LedgerTerms,
    UnprotectedRelease,
)
from fedaudit.spec.errors import InvalidInputError
from fedaudit.stored import LedgerRow
from models.repositories import (
    AnnouncementRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
    LedgerRepository,
)
from models.repositories.declared_ledgers import OPEN, REFUSED, USED
from models.tables.ledger import DeclaredLedger, DeclaredReservation, DeclaredRoundRow
from models.values import is_id, utc_now

_EVENT: TypeAdapter[AnyRelease] = TypeAdapter(DeclaredEvent)


def ledger_before(call: Call, ledger_id: str) -> LedgerState | None:
    """The ledger as it is before it is locked; None where the project has none."""
    if not is_id(ledger_id):
        return None
    with call.reading() as session:
        return call.resources.ledgers.get(session, call.project_id, ledger_id)


def locked(session: Session, caller: Caller, ledger_id: str) -> DeclaredLedger:
    """The ledger, locked. Raises ProblemError where the project has none, or its names were
    erased."""
    lock = partial(DeclaredLedgerRepository(session, caller.project_id).lock, later=True)
    row = found_by(lock, ledger_id, "ledger")
    refuse_erased(session, caller.project_id, row)
    return row


def composes_losses(terms: LedgerTerms) -> bool:
    """Whether loss distributions decide who has room."""
    return terms.accountant == "pld" and terms.budget is not None


def read_event(value: dict[str, Any]) -> AnyRelease:
    """A stored event."""
    found: AnyRelease = _EVENT.validate_python(value)
    return found


def charge_event(
    terms: LedgerTerms, histories: Histories, event: AnyRelease, names: Sequence[str]
) -> NDArray[np.int32]:
    """Charge a round to these clients, or to everyone; returns the places of the clients."""
    charge = charge_of(terms, event)
    places = histories.enter(() if charge.everyone else names)
    histories.charge(charge, places, steps=event.steps)
    return places


def held_by(
    terms: LedgerTerms, histories: Histories, reservations: Sequence[DeclaredReservation]
) -> Histories:
    """What was spent together with what these reservations hold."""
    found = histories.copy()
    for one in reservations:
        charge_event(terms, found, read_event(one.event), one.admitted)
    return found


def largest_costs(terms: LedgerTerms, histories: Histories) -> dict[str, float | None]:
    """The largest epsilon by Renyi orders, whatever the accountant, and the largest leakage; None
    of another cost, and where nothing bounds it."""
    epsilon = leakage = np.inf
    if terms.counts_epsilon:
        found = renyi_epsilons(histories.distinct(), histories.charges, terms)
        epsilon = float(found.max(initial=0.0))
    elif terms.mechanism == "laplace-l2":
        leakage = largest_leakage(histories)
    figures = {"epsilon_max": epsilon, "leakage_max": leakage}
    return {name: value if np.isfinite(value) else None for name, value in figures.items()}


def _charge_round(
    terms: LedgerTerms, histories: Histories, one: DeclaredRound
) -> tuple[NDArray[np.int32], int]:
    """Charge a round. The places of the clients that it asked, of none where everyone is charged;
    and how many of those who pay are over their budget with it."""
    asked = charge_event(terms, histories, one.event, [*one.participants, *one.failures])
    if charge_of(terms, one.event).everyone:
        return asked, clients_over(terms, histories)
    rows, which = distinct(histories.of(asked))
    return asked, int(over_budget(rows, histories.charges, terms)[which].sum())


def content_hash(one: DeclaredRound, key_id: str) -> str:
    """SHA-256 of all that a round declares, and of which API key did; the order of names and groups
    does not matter. Another key cannot learn from an equal hash whether its guess at the names is
    right."""
    value = one.model_dump(mode="json")
    value["participants"] = sorted(value["participants"])
    value["failures"] = sorted(value["failures"])
    text = json.dumps({**value, "posted_by": key_id}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


Posted = tuple[LedgerTerms, list[DeclaredRoundRow]]


def post_rounds(call: Call, ledger_id: str, value: Any) -> Posted:
    """The ledger's terms, and the rounds of a body as they are stored, in its order.

    A round that was declared before, with the same content and by the same API key, stays as it is.
    Raises ProblemError without such a ledger, for any other round that was declared, for one that
    comes after later ones, and for what passes totals of the project that owns the federation's
    data, or its total against readers of reports; InvalidInputError for a body with faults.
    """
    if (state := ledger_before(call, ledger_id)) is not None:
        _compute_beforehand(state, value)
    with call.writing() as session:
        row = locked(session, call.caller, ledger_id)
        state = call.resources.ledgers.locked(session, row)
        rounds = read_rounds(value, state.terms, state.histories)
        repeated = [one.round for one in rounds if one.round <= state.last_round]
        parts = DeclaredPartRepository(session, call.project_id)
        known = parts.rounds_of(ledger_id, repeated) if repeated else {}
        fresh = [one for one in rounds if _is_fresh(one, known, state, call.caller.key_id)]
        if not fresh:
            return state.terms, [known[one.round] for one in rounds]
        now = utc_now()
        reserved = parts.held_or_later(ledger_id, after=state.last_round, now=now)
        key_id = call.caller.key_id
        after, stored = _append(session, row, state, fresh, reserved, key_id=key_id, now=now)
        if row.federation_id is not None:
            spent, numbers = after.histories, {one.round for one in fresh}
            others = [one for one in reserved if holds(one, now) and one.round not in numbers]
            held = held_by(after.terms, spent, others)
            budgets = call.budgets(session)
            had_room = {one.reserved for one in stored.values()} == {"reserved"}
            bounded = not had_room and not budgets.sharing(row.federation_id).is_owner
            if any(one.groups for one in fresh):
                what, remedy = "a round with `groups`", "post it without `groups`"
                refuse_exact_figures(budgets, row.federation_id, what, remedy=remedy)
            book = partial(charge_federation, call.resources, session, row, after.terms)
            if why := book(held=held, spent=spent, within_totals=bounded):
                to_do = "have the total changed, or open a new ledger, with or without federation"
                raise conflict(f"{why}; another project owns the data: {to_do}")
    call.resources.ledgers.keep(ledger_id, after)
    found = {**known, **stored}
    return after.terms, [found[one.round] for one in rounds]


def _compute_beforehand(state: LedgerState, value: Any) -> None:
    """Curves of new events and loss distributions; nothing for a body with faults."""
    try:
        rounds = read_rounds(value, state.terms, state.histories)
    except InvalidInputError:
        return
    fresh = [one for one in rounds if one.round > state.last_round]
    if state.terms.counts_epsilon and (adjacency := state.terms.adjacency) is not None:
        for one in fresh:
            charge_of(state.terms, one.event).curve(adjacency)
    if fresh and composes_losses(state.terms):
        histories = state.histories.copy()
        for one in fresh:
            _charge_round(state.terms, histories, one)


def _is_fresh(
    one: DeclaredRound, known: dict[int, DeclaredRoundRow], state: LedgerState, key_id: str
) -> bool:
    stored = known.get(one.round)
    if stored is not None and stored.content_hash == content_hash(one, key_id):
        return False
    if one.round > state.last_round:
        return True
    if stored is not None:
        why = (
            f"round {one.round} was declared before, with another content or by another API key, "
            "and a ledger is never rewritten; declare what was left out under another number"
        )
    else:
        why = (
            f"round {one.round} comes after round {state.last_round}, which is in the chain; "
            f"declare it as round {state.last_round + 1} or later: what a round costs does not "
            "depend on its number, and the gap stays on record"
        )
    raise conflict(why, round=one.round)


def _append(
    session: Session,
    row: DeclaredLedger,
    before: LedgerState,
    fresh: Sequence[DeclaredRound],
    reservations: Sequence[DeclaredReservation],
    *,
    key_id: str,
    now: datetime,
) -> tuple[LedgerState, dict[int, DeclaredRoundRow]]:
    """Charge, chain and store rounds behind a ledger as it is; the state afterwards, and the rows
    of the rounds. `reservations`: whatever was reserved behind the ledger's last round."""
    terms, parts = before.terms, DeclaredPartRepository(session, row.project_id)
    secret, drawn = before.secret or secrets.token_bytes(SECRET_BYTES), Counter(before.drawn)
    # The subjects must not show who was drawn.
    secretly = [one for one in fresh if charge_of(terms, one.event).everyone]
    for one in secretly:
        asked = [*one.participants, *one.failures]
        # One more than there are contradicts the population; no further ones are stored.
        drawn.update(name for name in asked if name in drawn or len(drawn) <= terms.population)
    after = replace(before, histories=before.histories.copy(), secret=secret)
    reserved = {one.round: one for one in reservations}
    shown = _canary_evidence(fresh, parts, row.id)
    rounds, written = list[dict[str, Any]](), list[LedgerRow]()
    for one in fresh:
        covered = [held for at, held in reserved.items() if after.last_round < at <= one.round]
        about = {
            "ledger_id": row.id,
            "project_id": row.project_id,
            "declared_at": now,
            "content_hash": content_hash(one, key_id),
            "reserved": _as_reserved(one, terms, reserved.get(one.round), now=now),
            "reservations": reservations_hash(covered, secret),
            "drawn": drawn_hash(drawn, secret) if secretly and one is fresh[-1] else None,
            "canaries": shown[one.round].as_dict() if one.round in shown else None,
        }
        after, stored, rows = _with_round(after, one, about, secret=secret)
        rounds.append(stored)
        written += rows
    LedgerRepository(session, row.project_id).insert(row.id, written)
    parts.add_rounds(rounds)
    if used := [one.round for one in fresh if holds(reserved.get(one.round), now)]:
        parts.end_reservations(row.id, used, USED)
    moved = ("rounds", "last_round", "entries", "head", "releases", "secret")
    changes = {name: getattr(after, name) for name in moved}
    changes |= {"declared_at": now, **largest_costs(terms, after.histories)}
    if len(after.histories.names) > len(before.histories.names):
        changes["names"] = after.histories.names
    if secretly:
        counts = np.array(list(drawn.values()), dtype=np.int64)
        changes |= {"drawn_names": list(drawn), "drawn_counts": counts}
        after = replace(after, drawn=drawn)
    alarms = [one.alarm_round for one in shown.values() if one.alarm_round is not None]
    if alarms and row.alarm_round is None:
        changes["alarm_round"] = alarms[0]
        announcements = AnnouncementRepository(session, row.project_id)
        announcements.ledger_contradicted(row.id, round_=alarms[0])
    DeclaredLedgerRepository(session, row.project_id).change(row.id, changes)
    return after, {one["round"]: DeclaredRoundRow(**one) for one in rounds}


def _canary_evidence(
    fresh: Sequence[DeclaredRound], parts: DeclaredPartRepository, ledger_id: str
) -> dict[int, CanaryEvidence]:
    """What canaries show after each of these rounds that has some, by its number."""
    found: dict[int, CanaryEvidence] = {}
    newest: CanaryEvidence | None = None
    for one in fresh:
        if one.canaries is not None and not isinstance(one.event, UnprotectedRelease):
            newest = (newest or CanaryEvidence.of(parts.canaries(ledger_id))).after(
                one.canaries,
                round_=one.round,
                multiplier=one.event.noise_multiplier,
                steps=one.event.steps,
            )
            found[one.round] = newest
    return found


def _with_round(
    before: LedgerState, one: DeclaredRound, about: Mapping[str, Any], *, secret: bytes
) -> tuple[LedgerState, dict[str, Any], Iterator[LedgerRow]]:
    """The ledger with one more round, the round as it is stored, and its entries. `about`: what is
    stored of it beside what it declares and charges. The histories are charged as they are."""
    terms, histories = before.terms, before.histories
    asked, over = _charge_round(terms, histories, one)
    more = len(histories.names) - len(before.releases)
    releases = np.concatenate([before.releases, np.zeros(more, dtype=np.int32)])
    encoder = before.encoder.renamed(histories.names) if more else before.encoder
    entries = declared_entries(
        terms,
        histories,
        charge_of(terms, one.event),
        round_=one.round,
        steps=one.event.steps,
        participants=asked[: len(one.participants)],
        failures=asked[len(one.participants) :],
        releases=releases,
    )
    stored = {
        **about,
        **one.model_dump(mode="json", include={"round", "event"}),
        "participants": len(one.participants),
        "failures": len(one.failures),
        "over_budget": over,
        "groups": one.model_dump(mode="json", include={"groups"})["groups"] or None,
    }
    digests = encoder.digests(entries)
    declaration = declaration_of(DeclaredRoundRow(**stored), secret)
    links = links_of(entries, digests, before=before.head, declaration=declaration)
    after = replace(
        before,
        releases=releases,
        encoder=encoder,
        entries=before.entries + len(links),
        head=links[-1],
        last_round=one.round,
        rounds=before.rounds + 1,
    )
    rows = entries.rows(digests, links, declaration=declaration)
    return after, {**stored, "head": links[-1].hex()}, rows


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
        return "none"
    asked = {*one.participants, *one.failures}
    if reservation.denied is None or charge_of(terms, one.event).everyone:
        # A round that everyone pays for is refused for any draw.
        refused = reservation.state == REFUSED
    else:
        refused = not asked.isdisjoint(reservation.denied)
    if refused:
        return "refused"
    if not holds(reservation, now):
        return "none"
    same = reservation.event == one.event.model_dump(mode="json")
    return "reserved" if same and asked <= set(reservation.admitted) else "other"


def holds(reservation: DeclaredReservation | None, now: datetime) -> bool:
    """Whether something is held by a reservation, if there is one."""
    return reservation is not None and reservation.state == OPEN and reservation.expires_at > now
