"""Ledgers of trainings that run elsewhere, as callers see them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from api.schemas.base import Reasons
from api.schemas.people import ActorBody
from fedaudit.spec.declared_ledgers import MetricTerms


class LedgerEpsilon(BaseModel):
    """The largest epsilon of any client, against one observer."""

    observer: str
    delta: float
    adjacency: str
    accountant: str
    value: float | None
    reason: str | None
    """Why `value` is null, or the accountant not that of the terms."""


class StatedLedger(BaseModel):
    """A declared ledger, as its terms state it."""

    id: str
    name: str
    guarantee: Literal["declared", "none"]
    """Nobody here saw the training: all that follows is as its trainer declares it."""
    mechanism: str
    unit: str
    observer: str
    delta: float | None
    adjacency: str | None


class LedgerBody(StatedLedger):
    """A declared ledger, and what its rounds come to."""

    accountant: str | None
    population: int
    subjects: int
    """Clients that rounds have named, or that were listed."""
    budget: dict[str, float] | None
    metric: MetricTerms | None
    """The radius and clip that every round has; null where the terms state none."""
    federation_id: str | None
    rounds: int
    """How many were declared."""
    last_round: int
    gaps: list[tuple[int, int]]
    """Numbers below the last that nobody declared: first and last of each gap, the first 100."""
    missing_rounds: int
    epsilon: list[LedgerEpsilon]
    """Empty where the cost is not an epsilon."""
    leakage_max: float | None
    log_ratio_max: float | None
    """By the theorem, for the client that released most; fixed radius and clip only."""
    over_budget: int
    """Clients that have spent more than the budget of a client."""
    entries: int
    chain_head: str
    terms_hash: str
    signed_entries: int
    """How many entries a signature of the service covers."""
    created_at: datetime
    created_by: ActorBody | None
    declared_at: datetime | None
    reasons: Reasons


class LedgerSummary(StatedLedger):
    """A declared ledger in a list; its epsilon is the bound by Renyi orders."""

    rounds: int
    last_round: int
    epsilon_max: float | None
    leakage_max: float | None
    federation_id: str | None
    created_at: datetime
    declared_at: datetime | None


class DeclaredLedgerList(BaseModel):
    """Some ledgers, newest first."""

    items: list[LedgerSummary]
    next_cursor: str | None


class PostedRound(BaseModel):
    """A round as it was entered: the same for the same content, whenever it is posted."""

    round: int
    participants: int
    failures: int
    charged: Literal["participants", "population"]
    """Who pays: those who were asked, or everyone where it is secret who was drawn."""
    over_budget: int
    """Clients asked that have spent more than their budget with this round."""
    reservation: Literal["none", "reserved", "other", "refused"]
    """`other` where it is not what was reserved; `refused` where it asked clients for whom it had
    been refused."""
    chain_head: str
    """The chain's head behind this round: keep it, and nobody can cut the round off unseen."""


class PostedRounds(BaseModel):
    """All rounds of the request."""

    ledger_id: str
    rounds: list[PostedRound]


class RefusedSubject(BaseModel):
    """A client that a round may not ask."""

    subject: str
    reason: str


class ReservationBody(BaseModel):
    """Whether a round may run, and with whom."""

    ledger_id: str
    round: int
    admitted: list[str]
    refused: list[RefusedSubject]
    reason: str | None
    """Why nobody is admitted, where that is for one reason."""
    epsilon: list[LedgerEpsilon]
    """What the largest of the clients admitted would have spent, with all that is reserved."""
    leakage_max: float | None
    reserved: bool
    """Whether something is now held; released by its round, by DELETE, or at `expires_at`."""
    expires_at: datetime | None
