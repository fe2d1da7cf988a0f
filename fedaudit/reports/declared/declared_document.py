"""The report of a declared ledger, version 1: the shape of the JSON document.

Parts that it shares with the report of a run have the same shape; a figure that is None has its
reason beside it.
"""

from typing import Any, Literal

from fedaudit.reports.sections.epsilon import EpsilonSection
from fedaudit.reports.sections.fairness import FairnessSection
from fedaudit.reports.sections.guarantee import GuaranteeSection
from fedaudit.reports.sections.integrity import Integrity
from fedaudit.reports.sections.part import Part, Reasons


class LedgerSection(Part):
    """Which ledger the report is about, and what was declared to it."""

    id: str
    name: str
    terms_hash: str
    rounds: int
    last_round: int
    gaps: list[tuple[int, int]]
    """First and last of the runs of numbers that nobody declared; the first 100."""
    missing_rounds: int
    participations: int
    """Of all rounds together."""
    failures: int
    unreserved_rounds: int
    """Declared without a reservation, or otherwise than was reserved."""
    refused_rounds: int
    """Of these, declared for clients to whom their reservation had been refused."""
    unanswered_reservations: int
    """Reserved, and neither declared nor released."""
    first_declared_at: str | None
    last_declared_at: str | None
    minimum_group_size: int
    """Groups with fewer rows are suppressed: the stricter of the terms, and of what the service and
    the federation's policy allowed when the report was made."""
    witness: str | None
    """`trainer`: the service's key signed every earlier round as it stands, and the trainer was
    told the heads. `database`: earlier signatures were missing or another key's, so that rounds
    were signed as the database held them. Null without a signature."""


class DeclaredPrivacy(Part):
    """What the rounds spent, if all is as declared."""

    epsilon_max: float | None
    epsilon: list[EpsilonSection]
    leakage_max: float | None
    leakage_median: float | None
    log_ratio_max: float | None
    participations_max: int
    """Compositions of the client that was charged most."""
    budget: dict[str, float] | None
    """Of each client."""
    over_budget: int
    """Clients that have spent more than it."""
    reasons: Reasons


class DeclaredUtility(Part):
    """No figure of the model but whether the declared counts show one that decides something."""

    degenerate: bool | None
    stopped_by: str | None = None
    """Always null: how a training elsewhere ended is not declared."""
    reasons: Reasons


class DeclaredReport(Part):
    """The report of one declared ledger."""

    report_version: Literal[1] = 1
    declared: Literal[True] = True
    """All but hashes and compositions is as the trainer declares it."""
    ledger: LedgerSection
    verdict: str
    guarantee: GuaranteeSection
    privacy: DeclaredPrivacy
    utility: DeclaredUtility
    fairness: list[FairnessSection]
    """By the counts of the newest round that declared any."""
    fairness_round: int | None
    contradictions: list[str]
    """Where what was declared contradicts itself; gates then have no evidence."""
    terms: dict[str, Any]
    limits: list[str]
    """What this report does not show."""
    integrity: Integrity
