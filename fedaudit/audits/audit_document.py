"""The report of an audit of predictions, version 1: the paths of a run's report where they mean
something here, and null with a reason elsewhere."""

from typing import Any, Literal

from pydantic import Field

from fedaudit.reports.report import GateSection
from fedaudit.reports.sections.fairness import FairnessSection
from fedaudit.reports.sections.held_out_privacy import FairnessPrivacy
from fedaudit.reports.sections.model import ModelSection
from fedaudit.reports.sections.part import (
    GateOutcome,
    IntervalSection,
    Part,
    Reasons,
    Share,
    VerdictParts,
)
from fedaudit.reports.sections.privacy import ClusterLeakage
from fedaudit.reports.sections.provenance import Provenance


class AuditIdentity(Part):
    """Which audit the report is of."""

    id: str
    name: str
    spec_hash: str
    status: Literal["succeeded"]


class NoGuarantee(Part):
    """That nothing is known of the training, so that no privacy is guaranteed."""

    kind: Literal["none"] = "none"
    label: str | None = None
    in_force: Literal[False] = False
    conditions: dict[str, str] = Field(default_factory=dict)
    mechanism: str | None = None
    unit: str | None = None
    adjacency: str | None = None
    delta: float | None = None
    observers: list[str] = Field(default_factory=list)
    statement: str
    reasons: Reasons


class UnknownPrivacy(Part):
    """What training spent: not known here."""

    leakage_median: float | None = None
    leakage_max: float | None = None
    leakage_by_cluster: list[ClusterLeakage] | None = None
    leakage_quantiles: dict[str, float] | None = None
    leakage_per_release: float | None = None
    log_ratio_max: float | None = None
    participations_max: int | None = None
    refusals: int | None = None
    withheld: int | None = None
    epsilon_max: float | None = None
    epsilon: list[str] = Field(default_factory=list, max_length=0)
    reasons: Reasons


class AuditUtility(Part):
    """How good the predictions are, beside always predicting the most frequent outcome."""

    validation_loss: float | None = None
    selection_loss: float | None = None
    accuracy: Share
    baseline: Literal["majority"]
    baseline_accuracy: Share | None
    accuracy_over_baseline: float | None
    accuracy_over_baseline_interval: IntervalSection | None
    loss_under_baseline: float | None = None
    prediction_share: Share | None
    """Share of rows that are predicted the more frequent of favourable and not."""
    outcome_share: Share | None
    """The same of what came about."""
    degenerate: bool | None
    rounds: int | None = None
    best_round: int | None = None
    stopped_by: str | None = None
    reasons: Reasons


class ThresholdGaps(Part):
    """The gaps that the same scores have at another threshold."""

    threshold: float
    accuracy: float
    metrics: dict[str, dict[str, float | None]]
    """By attribute, each difference of rates."""


class ThresholdSection(Part):
    """At which threshold scores became predictions, and what others would have shown."""

    value: float
    others: list[ThresholdGaps]
    others_reason: str | None
    """Why there are none."""
    earlier_audits: int | None
    """How many audits of this project were made of the same data, truth and score at other
    thresholds."""
    earlier_audits_reason: str | None


class Predictions(Part):
    """What was compared, and what stands out."""

    truth: str
    column: str
    role: Literal["prediction", "score"]
    threshold: ThresholdSection | None
    equal_truth: bool
    """Whether every prediction equals the truth."""
    rows_left_out: int
    """Of the file, for want of truth, prediction or client."""
    drawn: Literal["clients", "rows"]
    """What intervals count as drawn by itself."""


class AuditData(Part):
    """The table, in numbers."""

    source: Literal["table"] = "table"
    clients: int | None
    training_clients: int | None = None
    validation_clients: int | None = None
    rows: int
    """Those that were compared."""
    parameters: int | None = None
    notes: list[str]
    reasons: Reasons


class AuditIntegrity(Part):
    """Who signed the report; it has no ledger."""

    ledger_hash: str | None = None
    chain_head: str | None = None
    entries: int | None = None
    signature: str | None
    """Ed25519, in base64, as of the reports of runs."""
    key_id: str | None
    reasons: Reasons


class AuditReport(Part):
    """The report of one audit of predictions."""

    report_version: Literal[1] = 1
    subject: Literal["predictions"] = "predictions"
    """What was audited; reports of runs have no such field."""
    experiment: AuditIdentity
    verdict: str
    verdict_parts: VerdictParts
    guarantee: NoGuarantee
    privacy: UnknownPrivacy
    utility: AuditUtility
    predictions: Predictions
    fairness: list[FairnessSection]
    fairness_privacy: FairnessPrivacy | None = None
    fairness_privacy_reason: str
    attacks: list[str] = Field(default_factory=list, max_length=0)
    model: ModelSection | None = None
    model_reason: str
    gates: list[GateSection]
    gate_outcome: GateOutcome | None
    data: AuditData
    spec: dict[str, Any]
    """What was asked for, with every default explicit: `spec_hash` is taken over it."""
    provenance: Provenance
    limits: list[str]
    integrity: AuditIntegrity
