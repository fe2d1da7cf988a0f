"""Say, before anybody trains, whether a declared ledger has room for a round, and for whom.

A reservation counts until its round is declared, it is released or replaced by another of the same
round, or a day has passed. Reservations and rounds of one ledger wait for each other: both book
what the whole ledger holds of its federation's budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from api.http.problems import ProblemError, not_found
from api.schemas.ledger_bodies import RefusedSubject, ReservationBody
from api.services.ledgers.beforehand import TRIES, Prepared, composes_losses, seen
from api.services.ledgers.federation_charges import give_back, hold_more
from api.services.ledgers.ledger_shown import epsilon_bodies, read_event
from api.services.lookups import refuse_erased
from api.shared.ledger_states import LedgerState
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.declared.figures import clients_over
from fedaudit.privacy.declared.histories import (
    Charge,
    Histories,
    charge_of,
    distinct,
    leakages,
    over_budget,
    renyi_epsilons,
    steps_of,
)
from fedaudit.privacy.declared.round_faults import SentReservation
from fedaudit.spec.declared_ledgers import AnyRelease, LedgerTerms, ReservationRequest
from fedaudit.spec.errors import InvalidInputError
from models.clock import utc_now
from models.identifiers import is_id
from models.repositories import (
    AnnouncementRepository,
    DeclaredLedgerRepository,
    DeclaredPartRepository,
)
from models.repositories.declared_ledgers import OPEN, REFUSED, RELEASED
from models.tables.declared_ledgers import DeclaredLedger, DeclaredReservation

LASTS = timedelta(days=1)


@dataclass(frozen=True, eq=False)
class _Answer:
    admitted: Sequence[str]
    refused: Sequence[RefusedSubject]
    reason: str | None
    held: Histories
    """What all reservations together would come to."""


def reserve_round(
    resources: Resources, caller: Caller, ledger_id: str, number: int, value: Any
) -> ReservationBody:
    """Hold what a round may cost, for those who have room.

    Raises ProblemError without such a ledger and for a round that is in the chain already, and
    InvalidInputError for a body with faults.
    """
    if not is_id(ledger_id):
        raise not_found("ledger")
    sent = SentReservation(value)
    for left in reversed(range(TRIES)):
        state = seen(resources, caller, ledger_id, again=left < TRIES - 1)
        prepared = None
        if state is not None:
            prepared = _compute_beforehand(
                resources, caller, ledger_id, state, number, sent, again=left < TRIES - 1
            )
        found = _reserve(resources, caller, ledger_id, number, sent, prepared if left else None)
        if found is not None:
            return found
    raise AssertionError("the last try reserves")


def _reserve(  # noqa: PLR0917 in the order of `reserve_round`
    resources: Resources,
    caller: Caller,
    ledger_id: str,
    number: int,
    sent: SentReservation,
    prepared: Prepared | None,
) -> ReservationBody | None:
    """The answer; None, and nothing held, where what was `prepared` does not serve the ledger as it
    stands by now."""
    now = utc_now()
    with resources.database.write() as session:
        row = DeclaredLedgerRepository(session, caller.project_id).lock(ledger_id, later=True)
        if row is None:
            raise not_found("ledger")
        refuse_erased(session, caller.project_id, row)
        state = resources.ledgers.locked(session, row)
        parts = DeclaredPartRepository(session, caller.project_id)
        others, earlier = parts.beside_and_of(ledger_id, number, now)
        _check_number(number, state)
        before = held_by(state.terms, state.histories, others)
        asked = sent.read(state.terms, state.histories, state.drawn, held=before)
        if prepared is not None and not prepared.serves(
            state, others, charges_of(state, others, [asked.event])
        ):
            return None
        answer = _decide(state.terms, before, asked)
        if answer.admitted:
            why = hold_more(resources, session, row, state.terms, answer.held)
            answer = answer if why is None else _none(before, asked, why)
        if answer.refused:
            told = AnnouncementRepository(session, caller.project_id)
            told.ledger_round_refused(ledger_id, round_=number)
        _keep(parts, row, number, asked, answer, earlier=earlier, now=now)
    return _body(state.terms, ledger_id, number, answer, now=now)


def _keep(
    parts: DeclaredPartRepository,
    row: DeclaredLedger,
    number: int,
    asked: ReservationRequest,
    answer: _Answer,
    *,
    earlier: DeclaredReservation | None,
    now: datetime,
) -> None:
    """What is held for the round, or that it was refused. What an earlier answer holds stays where
    somebody asks again and nobody is admitted."""
    if not (answer.admitted or earlier is None or earlier.state == REFUSED):
        return
    parts.put_reservation(
        {
            "ledger_id": row.id,
            "round": number,
            "project_id": row.project_id,
            "event": asked.event.model_dump(mode="json"),
            "admitted": list(answer.admitted),
            "refused": len(answer.refused),
            "denied": _denied(earlier, answer),
            "replaced": _replaced(earlier, asked.event, answer.admitted),
            "state": OPEN if answer.admitted else REFUSED,
            "reserved_at": now,
            "expires_at": now + LASTS,
        }
    )


def _body(
    terms: LedgerTerms, ledger_id: str, number: int, answer: _Answer, *, now: datetime
) -> ReservationBody:
    histories = answer.held
    return ReservationBody(
        ledger_id=ledger_id,
        round=number,
        admitted=list(answer.admitted),
        refused=list(answer.refused),
        reason=answer.reason,
        epsilon=epsilon_bodies(terms, _epsilon(terms, histories), accountant="rdp"),
        leakage_max=_leakage(terms, histories),
        reserved=bool(answer.admitted),
        expires_at=now + LASTS if answer.admitted else None,
    )


def _compute_beforehand(  # noqa: PLR0917 in the order of `reserve_round`
    resources: Resources,
    caller: Caller,
    ledger_id: str,
    state: LedgerState,
    number: int,
    sent: SentReservation,
    *,
    again: bool,
) -> Prepared | None:
    """What the answer looks up; None for a body with faults.

    What others reserved is mostly of events that the ledger has, so it is read beforehand only
    where loss distributions are composed with it, or after it turned out to be missing (`again`).
    """
    others: list[DeclaredReservation] = []
    if again or composes_losses(state.terms):
        with resources.database.read() as session:
            others = open_beside(session, caller.project_id, ledger_id, [number])
    before = held_by(state.terms, state.histories, others)
    try:
        asked = sent.read(state.terms, state.histories, state.drawn, held=before)
    except InvalidInputError:
        return None
    prepared = Prepared.of(state, others, charges_of(state, others, [asked.event]))
    if composes_losses(state.terms):
        _decide(state.terms, before, asked)
    return prepared


def charges_of(
    state: LedgerState, held: Sequence[DeclaredReservation], events: Sequence[AnyRelease]
) -> set[Charge]:
    """What a ledger charges with these reservations and events."""
    released = [*(read_event(one.event) for one in held), *events]
    return {*state.histories.charges, *(charge_of(state.terms, one) for one in released)}


def release_round(resources: Resources, caller: Caller, ledger_id: str, number: int) -> None:
    """Give back what is held for a round. Raises ProblemError where nothing is."""
    if not is_id(ledger_id):
        raise not_found("ledger")
    with resources.database.write() as session:
        row = DeclaredLedgerRepository(session, caller.project_id).lock(ledger_id, later=True)
        if row is None:
            raise not_found("ledger")
        parts = DeclaredPartRepository(session, caller.project_id)
        if not parts.end_reservations(ledger_id, [number], RELEASED):
            raise not_found("open reservation")
        state = resources.ledgers.get(session, caller.project_id, ledger_id)
        if state is not None and row.federation_id is not None:
            others = parts.open_reservations(ledger_id, utc_now())
            held = held_by(state.terms, state.histories, others)
            give_back(resources, session, row, state.terms, held)


def held_by(
    terms: LedgerTerms, histories: Histories, reservations: Sequence[DeclaredReservation]
) -> Histories:
    """What was spent together with what these reservations hold."""
    found = histories.copy()
    for one in reservations:
        _charge(terms, found, read_event(one.event), one.admitted)
    return found


def open_beside(
    session: Session, project_id: str, ledger_id: str, numbers: Sequence[int]
) -> list[DeclaredReservation]:
    """The open reservations of other rounds than these."""
    found = DeclaredPartRepository(session, project_id).open_reservations(ledger_id, utc_now())
    return [one for one in found if one.round not in numbers]


def _check_number(number: int, state: LedgerState) -> None:
    if number <= state.last_round:
        raise ProblemError(
            409,
            "conflict",
            f"round {number} does not come after round {state.last_round}, which is in the chain; "
            f"reserve round {state.last_round + 1} or later",
            round=number,
        )


def _replaced(
    earlier: DeclaredReservation | None, event: AnyRelease, admitted: Sequence[str]
) -> int:
    """How many earlier reservations of the round this one does not contain."""
    if earlier is None:
        return 0
    unanswered = earlier.state == OPEN and not _contains(event, admitted, earlier)
    return earlier.replaced + unanswered


def _denied(earlier: DeclaredReservation | None, answer: _Answer) -> list[str]:
    """Who was refused the round, and not admitted since: whoever asks again without them washes
    nothing out."""
    before = [] if earlier is None or earlier.denied is None else earlier.denied
    refused, admitted = [*before, *(one.subject for one in answer.refused)], set(answer.admitted)
    return [name for name in dict.fromkeys(refused) if name not in admitted]


def _contains(event: AnyRelease, admitted: Sequence[str], earlier: DeclaredReservation) -> bool:
    """Whether whoever was admitted before still is, for a round that costs no less."""
    mine, before = event.model_dump(mode="json"), earlier.event
    if mine.keys() != before.keys() or not set(earlier.admitted) <= set(admitted):
        return False
    return all(_no_less(name, mine[name], before[name]) for name in mine)


def _no_less(name: str, mine: Any, before: Any) -> bool:
    if name in ("steps", "rate", "clients"):
        return bool(mine >= before)
    if name == "noise_multiplier":
        return bool(mine <= before)
    return bool(mine == before)


def _charge(
    terms: LedgerTerms, histories: Histories, event: AnyRelease, names: Sequence[str]
) -> NDArray[np.int32]:
    charge = charge_of(terms, event)
    places = histories.enter(() if charge.everyone else names)
    histories.charge(charge, places, steps=steps_of(event))
    return places


def _decide(terms: LedgerTerms, before: Histories, asked: ReservationRequest) -> _Answer:
    trial = before.copy()
    places = _charge(terms, trial, asked.event, asked.participants)
    everyone = charge_of(terms, asked.event).everyone
    if everyone:
        places = np.arange(len(trial.names), dtype=np.int32)
    rows, which = distinct(trial.of(places))
    over = over_budget(rows, trial.charges, terms)
    if not over.any():
        return _Answer(asked.participants, (), None, trial)
    why = _reasons(terms, rows, trial)
    refused_at = over[which]
    if everyone:
        count = clients_over(terms, trial)
        worst = why[int(which[refused_at.argmax()])]
        reason = f"the round is charged to everyone, and {count} clients have no room: {worst}"
        return _none(before, asked, reason)
    refused = [
        RefusedSubject(subject=name, reason=why[group])
        for name, group, out in zip(asked.participants, which.tolist(), refused_at, strict=True)
        if out
    ]
    admitted = [
        name for name, out in zip(asked.participants, refused_at.tolist(), strict=True) if not out
    ]
    if not admitted:
        return _Answer((), refused, None, before)
    held = before.copy()
    _charge(terms, held, asked.event, admitted)
    return _Answer(admitted, refused, None, held)


def _none(before: Histories, asked: ReservationRequest, reason: str) -> _Answer:
    refused = [RefusedSubject(subject=name, reason=reason) for name in asked.participants]
    return _Answer((), refused, reason, before)


def _reasons(terms: LedgerTerms, rows: NDArray[np.int64], trial: Histories) -> list[str]:
    """Of each distinct history, what it would come to."""
    budget = terms.budget
    assert budget is not None
    ((figure, total),) = budget.model_dump().items()
    if terms.adjacency is None or terms.delta is None:
        costs = leakages(rows, trial.charges)
    else:
        costs = renyi_epsilons(rows, trial.charges, adjacency=terms.adjacency, delta=terms.delta)
    return [
        f"would have spent {_number(cost)} of a budget of {total:g} ({figure})"
        for cost in costs.tolist()
    ]


def _number(cost: float) -> str:
    return f"{cost:.6g}" if np.isfinite(cost) else "without any bound"


def _epsilon(terms: LedgerTerms, histories: Histories) -> float | None:
    """By Renyi orders, whatever the accountant: a reservation is answered at once."""
    if terms.adjacency is None or terms.delta is None:
        return None
    found = renyi_epsilons(
        histories.distinct(), histories.charges, adjacency=terms.adjacency, delta=terms.delta
    )
    most = float(found.max(initial=0.0))
    return most if np.isfinite(most) else None


def _leakage(terms: LedgerTerms, histories: Histories) -> float | None:
    if terms.mechanism != "laplace-l2":
        return None
    most = float(leakages(histories.distinct(), histories.charges).max(initial=0.0))
    return most if np.isfinite(most) else None
