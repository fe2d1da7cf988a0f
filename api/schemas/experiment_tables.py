"""What rounds leave: their figures, the ledger's lines, fairness figures and counts; and ledgers of
trainings that run elsewhere."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from api.http.answers import SmallInteger
from api.schemas.base import Page, PageParameters, Parameters, Reasons
from api.schemas.people import ActorBody
from fedaudit.ledger.rows import OutcomeName
from fedaudit.privacy.accounting.privacy_events import GuaranteeKind
from fedaudit.reports.checks import Check
from fedaudit.reports.sections.part import IntervalSection
from fedaudit.reports.sections.privacy import ClusterLeakage
from fedaudit.spec.base import Text, stands_for
from fedaudit.spec.declared_ledgers import MetricTerms
from fedaudit.spec.errors import refuse_at
from fedaudit.spec.privacy import Noise


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
    """The training was not observed: all that follows is as its trainer declares it."""
    mechanism: str
    unit: str
    observer: str
    delta: float | None
    adjacency: str | None
    alarm_round: int | None
    """The round in which canaries contradicted the declared noise; null without an alarm."""


class LedgerBody(StatedLedger):
    """A declared ledger, and what its rounds come to."""

    accountant: str | None
    population: int
    subjects: int | None
    """Clients that rounds have named, or that were listed; null without `ledger:read` where samples
    are secret."""
    budget: dict[str, float] | None
    metric: MetricTerms | None
    """The radius and clip that every round has; null where the terms state none."""
    federation_id: str | None
    rounds: int
    """How many were declared."""
    last_round: int
    gaps: list[tuple[int, int]]
    """Numbers below the last that were not declared: first and last of each gap, the first 100."""
    missing_rounds: int
    epsilon: list[LedgerEpsilon]
    """Empty where the cost is not an epsilon."""
    leakage_max: float | None
    log_ratio_max: float | None
    """The theorem's bound for the client that released most; fixed radius and clip only."""
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


class DeclaredLedgerList(Page[LedgerSummary]):
    """Some ledgers, newest first."""


class PostedRound(BaseModel):
    """A round as it was entered: the same for the same content, whenever it is posted."""

    round: int
    participants: int
    failures: int
    charged: Literal["participants", "population"]
    """Who pays: those who were asked, or everyone where it is secret who was drawn."""
    over_budget: int
    """Clients asked that have spent more than their budget with this round."""
    alarm_round: int | None
    """The round, up to this one, in which canaries contradicted the declared noise; null too of
    rounds without canaries."""
    reservation: Literal["none", "reserved", "other", "refused"]
    """`other` where it is not what was reserved; `refused` where it asked clients for whom it had
    been refused."""
    chain_head: str
    """The chain's head behind this round: keep it, and a removed round is noticed."""


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
    """Why no client is admitted, where there is one reason."""
    epsilon: list[LedgerEpsilon]
    """What the largest of the clients admitted would have spent, with all that is reserved."""
    leakage_max: float | None
    reserved: bool
    """Whether something is now held; released by its round, by DELETE, or at `expires_at`."""
    expires_at: datetime | None


class RoundBody(BaseModel):
    """One round."""

    round: int
    selection_loss: float | None
    validation_loss: float | None
    accuracy: float | None
    cluster_sizes: list[int]
    separation: float | None
    collapsed: bool
    leakage_median: float | None
    leakage_max: float | None
    epsilon_max: float | None
    """The largest of any client so far, against the observer that learns most."""
    demographic_parity_difference: float | None
    equalized_odds_difference: float | None
    equal_opportunity_difference: float | None
    leakage_by_cluster: list[ClusterLeakage] | None
    reasons: Reasons


class RoundPage(Page[RoundBody]):
    """Some rounds, in order."""


class AccuracyInterval(BaseModel):
    """Clopper-Pearson interval, which takes a client's rows for independent draws."""

    low: float
    high: float
    level: float


class ClientBody(BaseModel):
    """One client: what it paid, and how the model does on its rows."""

    client: str
    participations: int | None
    """Rounds that it was charged for."""
    refused: int | None
    """Rounds from which its budget kept it."""
    spent: float | None
    """`figure` says of what; null of a client that did not train."""
    remaining: float | None
    """What remains of its budget in this run; null without one."""
    accuracy: float | None
    """On its scored rows; null where these are few, or few others would follow."""
    accuracy_interval: AccuracyInterval | None
    """Null where the accuracy is, and of reports of earlier versions."""
    reason: str | None
    """Why figures other than `remaining` are null."""


class ClientPage(Page[ClientBody]):
    """Some clients, in the order of their names."""

    figure: Literal["leakage", "epsilon"] | None
    """What is spent; null where nothing bounds it, or clients do not pay."""


class LedgerLine(BaseModel):
    """What one round cost one subject against one observer; a line for each layer that has noise of
    its own, whose figures add up."""

    round: int
    release: int
    subject_kind: str
    subject: str
    observer: str
    component: str
    """`all`, or the layer that the figures are of: `layer-1` and so on."""
    outcome: OutcomeName
    epsilon: float | None
    """What the subject has spent in all, where there is a `delta`; else epsilon per unit of
    distance, under metric privacy."""
    delta: float | None
    adjacency: str | None
    radius: float | None
    leakage: float | None
    leakage_total: float | None
    guarantee: GuaranteeKind
    reason: str | None
    """Why a figure is null."""
    noise: Noise | Literal["declared"]
    """Under `simulation` the noise follows from the seed, and no guarantee is in force."""


class LedgerPage(Page[LedgerLine]):
    """Some lines of the ledger, by round and subject."""

    salt: str | None
    """Key of the entries' digests, in hexadecimal. It is confidential: anyone who has it can test
    guesses of who took part against the hashes of the report."""
    reasons: Reasons
    """Why `salt` is null; why `delta` and `adjacency` are, where they are: the same of all
    lines."""


class LedgerFilters(Parameters):
    """Which part of the ledger."""

    client: Annotated[Text | None, Field(description="A subject's key.")] = None
    round_from: SmallInteger | None = None
    round_to: SmallInteger | None = None

    @model_validator(mode="after")
    def _rounds_in_order(self) -> Self:
        if self.round_to is not None and self.round_to < (self.round_from or 0):
            raise refuse_at("/query/round_to", "must be no smaller than `round_from`")
        return self


class LedgerParameters(PageParameters, LedgerFilters):
    """Which page of which part of the ledger."""


class FairnessLine(BaseModel):
    """One metric of one sensitive attribute in one round."""

    round: int
    attribute: str
    metric: str
    value: float | None
    reason: str | None
    interval: Annotated[dict[str, Any], stands_for(IntervalSection)] | None
    interval_reason: str | None


class GroupLine(BaseModel):
    """The counts of one group in one round: confidential."""

    round: int
    attribute: str
    value: str
    count: int
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    selection_rate: float | None
    true_positive_rate: float | None
    false_positive_rate: float | None
    reasons: Reasons


class FairnessPage(Page[FairnessLine]):
    """Some fairness figures, by round and attribute."""

    groups: list[GroupLine] | None
    """The counts behind the attributes that begin on this page."""
    groups_reason: str | None


class FairnessFilters(Parameters):
    """Which attribute."""

    attribute: Text | None = None


class FairnessParameters(PageParameters, FairnessFilters):
    """Which page of which attribute's figures."""


class CheckedReport(BaseModel):
    """What was found when a report was checked."""

    valid: bool
    """Whether no check failed."""
    verdict: Literal["valid", "consistent, signer untrusted", "altered"]
    """Never `valid` here: take a bundle, and the key from someone other than this service."""
    checks: list[Check]
    signature: str | None
    key_id: str | None
    reasons: Reasons


class Verification(CheckedReport):
    """What was found when the report was checked against the stored ledger."""

    experiment_id: str
    entries: int
    """Ledger entries that were read."""
    ledger_hash: str
    """Computed anew from the stored figures."""
    chain_head: str
