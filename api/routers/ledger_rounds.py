"""Rounds of trainings that run elsewhere: declared, and reserved before anyone trains.

A reservation says whether a declared ledger has room for a round, and for whom. It counts until its
round is declared, it is released or replaced by another of the same round, or a day has passed.
Reservations and rounds of one ledger wait for each other: both book what the whole ledger holds of
its federation's budget.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from operator import eq, ge, le
from typing import Annotated, Any

import numpy as np
from fastapi import Path, Response
from numpy.typing import NDArray

from api.http.answers import json_answer
from api.http.bodies import JsonBody
from api.http.problems import conflict, not_found
from api.openapi import Router, problems, request_body
from api.routers.ledgers import epsilon_bodies
from api.schemas.base import of_row
from api.schemas.experiment_tables import PostedRound, PostedRounds, RefusedSubject, ReservationBody
from api.services.ledgers import round_posting
from api.services.ledgers.federation_charges import charge_federation
from api.services.lookups import found_by
from api.shared.ledger_states import LedgerState
from api.shared.security import Call, ExperimentsWriter
from fedaudit.privacy.declared import histories
from fedaudit.privacy.declared.figures import clients_over, read_reservation
from fedaudit.spec.declared_ledgers import (
    MAX_ROUND,
    AnyRelease,
    LedgerTerms,
    ReservationRequest,
    RoundsRequest,
)
from fedaudit.spec.errors import InvalidInputError
from models.repositories import (
    AnnouncementRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
)
from models.repositories.declared_ledgers import OPEN, REFUSED, RELEASED
from models.tables.ledger import DeclaredReservation, DeclaredRoundRow
from models.values import utc_now

router = Router(prefix="/ledgers/{ledger_id}/rounds", tags=["ledgers"])

Number = Annotated[int, Path(ge=1, le=MAX_ROUND, description="The round.")]
RESERVATION_TTL = timedelta(days=1)


@router.post("", responses=problems(409), openapi_extra=request_body(RoundsRequest))
def declare_rounds(ledger_id: str, call: ExperimentsWriter, value: JsonBody) -> PostedRounds:
    """Declare rounds that ran: all of them are entered, or none.

    Numbers ascend and may leave gaps, which stay on record. The same round with the same content
    by the same API key changes nothing and is answered alike; otherwise it is refused.
    """
    terms, rows = round_posting.post_rounds(call, ledger_id, value)
    return PostedRounds(ledger_id=ledger_id, rounds=[_posted(terms, row) for row in rows])


@router.post(
    "/{number}/reservation",
    response_model=ReservationBody,
    responses=problems(409),
    openapi_extra=request_body(ReservationRequest),
)
def reserve_declared_round(
    ledger_id: str, number: Number, call: ExperimentsWriter, value: JsonBody
) -> Response:
    """Ask, before anyone trains, whether a round may run, and with whom.

    What is admitted is held until the round is declared, for a day at most, and replaces what was
    held for the same round.
    """
    return json_answer(_reserved(call, ledger_id, number, value))


@router.delete("/{number}/reservation", status_code=204)
def release_reservation(ledger_id: str, number: Number, call: ExperimentsWriter) -> None:
    """Give back what is held for a round that will not run."""
    with call.writing() as session:
        lock = partial(DeclaredLedgerRepository(session, call.project_id).lock, later=True)
        row = found_by(lock, ledger_id, "ledger")
        parts = DeclaredPartRepository(session, call.project_id)
        if not parts.end_reservations(ledger_id, [number], RELEASED):
            raise not_found("open reservation")
        state = call.resources.ledgers.get(session, call.project_id, ledger_id)
        if state is not None and row.federation_id is not None:
            others = _held_and_own(parts, state, ledger_id, number, now=utc_now())[0]
            held = round_posting.held_by(state.terms, state.histories, others)
            charge_federation(call.resources, session, row, state.terms, held=held)


def _posted(terms: LedgerTerms, row: DeclaredRoundRow) -> PostedRound:
    """A stored round."""
    everyone = histories.charge_of(terms, round_posting.read_event(row.event)).everyone
    return of_row(
        PostedRound,
        row,
        charged="population" if everyone else "participants",
        reservation=row.reserved,
        chain_head=row.head,
        alarm_round=(row.canaries or {}).get("alarm_round"),
    )


@dataclass(frozen=True, eq=False)
class _Answer:
    admitted: Sequence[str]
    refused: Mapping[str, str]
    """Why, by client."""
    reason: str | None
    held: histories.Histories
    """What all reservations together would come to."""


def _reserved(call: Call, ledger_id: str, number: int, value: Any) -> ReservationBody:
    """Hold what a round may cost, for those who have room.

    Raises ProblemError without such a ledger and for a round that is in the chain already, and
    InvalidInputError for a body with faults.
    """
    now = utc_now()
    if (state := round_posting.ledger_before(call, ledger_id)) is not None:
        _compute_beforehand(call, (ledger_id, number), state, value)
    with call.writing() as session:
        row = round_posting.locked(session, call.caller, ledger_id)
        state = call.resources.ledgers.locked(session, row)
        parts = DeclaredPartRepository(session, call.project_id)
        if number <= state.last_round:
            raise conflict(
                f"round {number} does not come after round {state.last_round}, which is in the "
                f"chain; reserve round {state.last_round + 1} or later",
                round=number,
            )
        others, earlier = _held_and_own(parts, state, ledger_id, number, now=now)
        before = round_posting.held_by(state.terms, state.histories, others)
        asked = read_reservation(value, state.terms, state.histories, held=before)
        answer = _decide(state.terms, before, asked)
        if answer.admitted:
            why = charge_federation(
                call.resources, session, row, state.terms, held=answer.held, within_totals=True
            )
            if why is not None:
                answer = _Answer((), dict.fromkeys(asked.participants, why), why, before)
        if answer.refused:
            announcements = AnnouncementRepository(session, call.project_id)
            announcements.ledger_round_refused(ledger_id, round_=number)
        if answer.admitted or earlier is None or earlier.state == REFUSED:
            # What an earlier answer holds stays where another request admits no client.
            owner = {"ledger_id": row.id, "round": number, "project_id": row.project_id}
            parts.put_reservation({**owner, **_stored(asked, answer, earlier, now=now)})
    costs = round_posting.largest_costs(state.terms, answer.held)
    return ReservationBody(
        ledger_id=ledger_id,
        round=number,
        admitted=list(answer.admitted),
        refused=[RefusedSubject(subject=name, reason=why) for name, why in answer.refused.items()],
        reason=answer.reason,
        epsilon=epsilon_bodies(state.terms, costs["epsilon_max"], accountant="rdp"),
        leakage_max=costs["leakage_max"],
        reserved=bool(answer.admitted),
        expires_at=now + RESERVATION_TTL if answer.admitted else None,
    )


def _held_and_own(
    parts: DeclaredPartRepository, state: LedgerState, ledger_id: str, number: int, *, now: datetime
) -> tuple[list[DeclaredReservation], DeclaredReservation | None]:
    """The reservations of other rounds that hold, and what was reserved last for this one, whatever
    became of it."""
    found = parts.held_or_later(ledger_id, after=state.last_round, now=now)
    own = next((one for one in found if one.round == number), None)
    return [one for one in found if one is not own and round_posting.holds(one, now)], own


def _compute_beforehand(call: Call, place: tuple[str, int], state: LedgerState, value: Any) -> None:
    """What the answer looks up; nothing for a body with faults.

    What others reserved is mostly of events that the ledger has, so it is read beforehand only
    where loss distributions are composed with it.
    """
    others: list[DeclaredReservation] = []
    if round_posting.composes_losses(state.terms):
        with call.reading() as session:
            parts = DeclaredPartRepository(session, call.project_id)
            others, _ = _held_and_own(parts, state, *place, now=utc_now())
    with suppress(InvalidInputError):
        before = round_posting.held_by(state.terms, state.histories, others)
        asked = read_reservation(value, state.terms, state.histories, held=before)
        _decide(state.terms, before, asked)


def _stored(
    asked: ReservationRequest,
    answer: _Answer,
    earlier: DeclaredReservation | None,
    *,
    now: datetime,
) -> dict[str, Any]:
    """What is held for the round, or that it was refused.

    `denied`: who was refused the round, by this answer or an earlier one, and not admitted since,
    so that asking again without them hides nothing. `replaced`: the earlier reservations of the
    round that this one does not contain.
    """
    before = [] if earlier is None or earlier.denied is None else earlier.denied
    refused, admitted = [*before, *answer.refused], set(answer.admitted)
    replaced = 0
    if earlier is not None:
        unanswered = earlier.state == OPEN and not _contains(asked.event, admitted, earlier)
        replaced = earlier.replaced + unanswered
    return {
        "event": asked.event.model_dump(mode="json"),
        "admitted": list(answer.admitted),
        "refused": len(answer.refused),
        "denied": [name for name in dict.fromkeys(refused) if name not in admitted],
        "replaced": replaced,
        "state": OPEN if answer.admitted else REFUSED,
        "reserved_at": now,
        "expires_at": now + RESERVATION_TTL,
    }


def _contains(event: AnyRelease, admitted: set[str], earlier: DeclaredReservation) -> bool:
    """Whether every client admitted before still is, for a round that costs no less."""
    mine, before = event.model_dump(mode="json"), earlier.event
    if mine.keys() != before.keys() or not set(earlier.admitted) <= admitted:
        return False
    return all(_NO_LESS.get(name, eq)(mine[name], before[name]) for name in mine)


_NO_LESS = {"steps": ge, "rate": ge, "clients": ge, "noise_multiplier": le}
"""How a round that costs no less compares in a field of its event; others are the same."""


def _decide(terms: LedgerTerms, before: histories.Histories, asked: ReservationRequest) -> _Answer:
    trial, everyone = before.copy(), histories.charge_of(terms, asked.event).everyone
    places = round_posting.charge_event(terms, trial, asked.event, asked.participants)
    if everyone:
        places = np.arange(len(trial.names), dtype=np.int32)
    rows, which = histories.distinct(trial.of(places))
    over = histories.over_budget(rows, trial.charges, terms)
    if not over.any():
        return _Answer(asked.participants, {}, None, trial)
    why, is_over = _reasons(terms, rows, trial), over.tolist()
    if everyone:
        count, worst = clients_over(terms, trial), why[int(which[over[which].argmax()])]
        reason = f"the round is charged to everyone, and {count} clients have no room: {worst}"
        return _Answer((), dict.fromkeys(asked.participants, reason), reason, before)
    groups = dict(zip(asked.participants, which.tolist(), strict=True))
    refused = {name: why[group] for name, group in groups.items() if is_over[group]}
    admitted = [name for name in groups if name not in refused]
    held = before
    if admitted:
        held = before.copy()
        round_posting.charge_event(terms, held, asked.event, admitted)
    return _Answer(admitted, refused, None, held)


def _reasons(terms: LedgerTerms, rows: NDArray[np.int64], trial: histories.Histories) -> list[str]:
    """Why each distinct history is over the budget: what it would amount to."""
    budget = terms.budget
    assert budget is not None
    ((figure, total),) = budget.model_dump().items()
    if terms.counts_epsilon:
        costs = histories.renyi_epsilons(rows, trial.charges, terms)
    else:
        costs = histories.leakages(rows, trial.charges)
    spent = [f"{cost:.6g}" if np.isfinite(cost) else "without any bound" for cost in costs.tolist()]
    return [f"would have spent {cost} of a budget of {total:g} ({figure})" for cost in spent]
