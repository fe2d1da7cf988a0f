"""What rounds leave: their figures, the ledger's lines, fairness figures and counts."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from api.http.answers import SmallInteger
from api.schemas.base import Page, PageParameters, Parameters, Reasons
from fedaudit.ledger.rows import OutcomeName
from fedaudit.privacy.accounting.privacy_events import GuaranteeKind
from fedaudit.reports.sections.part import computed_rate, with_rates
from fedaudit.spec.base import Text


class ClusterLeakageBody(BaseModel):
    """Leakage so far of the clients whose newest upload went into one cluster."""

    cluster: int
    clients: int
    leakage_median: float
    leakage_max: float


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
    """Of whoever has spent most so far, against the observer that learns most."""
    demographic_parity_difference: float | None
    equalized_odds_difference: float | None
    equal_opportunity_difference: float | None
    leakage_by_cluster: list[ClusterLeakageBody] | None
    reasons: Reasons


class RoundPage(Page[RoundBody]):
    """Some rounds, in order."""


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
    """With a `delta`: what the subject has spent in all. Without: per unit of distance, under
    metric privacy."""
    delta: float | None
    adjacency: str | None
    radius: float | None
    leakage: float | None
    leakage_total: float | None
    guarantee: GuaranteeKind
    reason: str | None
    """Why a figure is null."""


class LedgerPage(BaseModel):
    """Some lines of the ledger, by round and subject."""

    items: list[LedgerLine]
    salt: str | None
    """In hexadecimal, what the digests of the entries are keyed with: confidential, because with it
    guesses of who took part can be tried on the hashes of the report."""
    reasons: Reasons
    """Why `salt` is null; why `delta` and `adjacency` are, where they are: the same of all
    lines."""
    next_cursor: str | None


class LedgerFilters(Parameters):
    """Which part of the ledger."""

    client: Annotated[Text | None, Field(description="A subject's key.")] = None
    round_from: SmallInteger | None = None
    round_to: SmallInteger | None = None


class LedgerParameters(PageParameters, LedgerFilters):
    """Which page of which part of the ledger."""


class FairnessLine(BaseModel):
    """One metric of one sensitive attribute in one round."""

    round: int
    attribute: str
    metric: str
    value: float | None
    reason: str | None
    interval: dict[str, Any] | None
    interval_reason: str | None


@with_rates(after="false_negatives", field=computed_rate)
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
    reasons: Reasons


class FairnessPage(BaseModel):
    """Some fairness figures, by round and attribute."""

    items: list[FairnessLine]
    groups: list[GroupLine] | None
    """The counts behind the attributes that begin on this page."""
    groups_reason: str | None
    next_cursor: str | None


class FairnessFilters(Parameters):
    """Which attribute."""

    attribute: Text | None = None


class FairnessParameters(PageParameters, FairnessFilters):
    """Which page of which attribute's figures."""


class Check(BaseModel):
    """One thing that was checked."""

    name: str
    outcome: Literal["pass", "fail", "unchecked"]
    """`unchecked`: something was missing for it, which `detail` names."""
    detail: str


class Verification(BaseModel):
    """What was found when the report was checked against the stored ledger."""

    experiment_id: str
    valid: bool
    """Whether no check failed."""
    verdict: Literal["valid", "consistent, signer untrusted", "altered"]
    """Never `valid` here: take a bundle, and the key from somebody else than this service."""
    checks: list[Check]
    entries: int
    """Ledger entries that were read."""
    ledger_hash: str
    """Computed anew from the stored figures."""
    chain_head: str
    signature: str | None
    key_id: str | None
    reasons: Reasons
