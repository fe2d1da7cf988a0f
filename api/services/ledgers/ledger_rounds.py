"""The rounds of a declared ledger as pages show them, and what was reserved and never declared."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from api.services.ledgers.ledger_opening import find_ledger
from api.shared.resources import Resources
from api.shared.security import Caller
from fedaudit.privacy.declared.figures import contradictions
from models.clock import utc_now
from models.repositories import DeclaredPartRepository
from models.repositories.declared_ledgers import OPEN, REFUSED, RELEASED
from models.tables.declared_ledgers import DeclaredReservation

Waiting = Literal["held", "unanswered", "given-back", "refused"]
"""What became of a reservation that no round followed; `unanswered`: the round may have run."""


@dataclass(frozen=True)
class ShownRound:
    """A declared round."""

    number: int
    event: dict[str, Any]
    participants: int
    failures: int
    over_budget: int
    refused: int
    """Clients that its reservation refused."""
    reservation: str
    declared_at: datetime


@dataclass(frozen=True)
class ShownReservation:
    """A reservation without a round."""

    number: int
    event: dict[str, Any]
    admitted: int
    refused: int
    became: Waiting
    reserved_at: datetime


@dataclass(frozen=True)
class LedgerRounds:
    """Some of a ledger's rounds, and its reservations, newest first."""

    rounds: Sequence[ShownRound]
    older: int | None
    """Below which round the next ones are; None where these are the last."""
    reservations: Sequence[ShownReservation]
    more_reservations: int
    """How many older ones are left out."""
    contradictions: Sequence[str]
    """Where what was declared contradicts itself."""


def ledger_rounds(
    resources: Resources, caller: Caller, ledger_id: str, *, below: int | None, limit: int
) -> LedgerRounds:
    """The newest rounds with numbers `below` one. Raises ProblemError without such a ledger."""
    with resources.database.read() as session:
        row = find_ledger(session, caller, ledger_id)
        state = resources.ledgers.get(session, caller.project_id, ledger_id)
        parts = DeclaredPartRepository(session, caller.project_id)
        rows = parts.newest_rounds(row.id, below=below, limit=limit + 1)
        reservations = {one.round: one for one in parts.reservations(row.id)}
    rounds = [
        ShownRound(
            number=one.round,
            event=one.event,
            participants=one.participants,
            failures=one.failures,
            over_budget=one.over_budget,
            refused=reservations[one.round].refused if one.round in reservations else 0,
            reservation=one.reserved,
            declared_at=one.declared_at,
        )
        for one in rows[:limit]
    ]
    now = utc_now()
    unanswered = [
        _shown(one, now=now, last_round=row.last_round)
        for one in reversed(reservations.values())
        if one.state in (OPEN, RELEASED, REFUSED)
    ]
    return LedgerRounds(
        rounds=rounds,
        older=rounds[-1].number if len(rows) > limit else None,
        reservations=unanswered[:limit],
        more_reservations=max(0, len(unanswered) - limit),
        contradictions=()
        if state is None
        else contradictions(state.terms, state.histories, state.drawn),
    )


def _shown(one: DeclaredReservation, *, now: datetime, last_round: int) -> ShownReservation:
    became: Waiting = "held"
    if one.state == REFUSED:
        became = "refused"
    elif one.state == RELEASED:
        became = "given-back"
    elif one.expires_at <= now or one.round < last_round:
        became = "unanswered"
    return ShownReservation(
        number=one.round,
        event=one.event,
        admitted=len(one.admitted),
        refused=one.refused,
        became=became,
        reserved_at=one.reserved_at,
    )
