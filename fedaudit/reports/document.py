"""The report, version 1: the shape of the JSON document, and its schema.

A figure that is None has its reason beside it: in the `reasons` map of the same object under the
field's name, or in `reason` where the object holds one figure.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fedaudit.privacy.inputs import GuaranteeKind

REPORT_VERSION = 1

Reasons = dict[str, str]
Share = Annotated[float, Field(ge=0, le=1)]
Outcome = Literal["pass", "fail", "insufficient_evidence"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Experiment(_Part):
    """Which experiment the report is about."""

    id: str
    name: str
    spec_hash: str
    status: str


class GuaranteeSection(_Part):
    """Who is protected against whom, and how far."""

    kind: GuaranteeKind
    mechanism: str
    unit: str
    adjacency: str | None
    delta: float | None
    observers: list[str]
    statement: str
    reasons: Reasons


class ClusterLeakage(_Part):
    """Leakage of the clients whose last upload went into one cluster."""

    cluster: int
    clients: int
    leakage_median: float
    leakage_max: float


class EpsilonSection(_Part):
    """The largest epsilon that anyone spent, before one observer."""

    observer: str
    delta: float
    adjacency: str
    accountant: str
    value: Annotated[float, Field(ge=0)]


class RecordGroupSection(_Part):
    """Records whose budgets lie in one range, before whoever sees the final model."""

    budget_low: float
    """Budgets exceed this, unless it is the same as the upper end."""
    budget_high: float
    records: int | None
    epsilon_max: float
    budget_used_share: float
    """The largest share of its own budget that a record spent; above 1 it was passed."""
    reasons: Reasons


class RecordsSection(_Part):
    """What records of different budgets spent."""

    left_out: int
    """Records that were never sampled."""
    overspent: int
    """Records that passed their own budgets."""
    groups: list[RecordGroupSection]


class Privacy(_Part):
    """What training spent. Medians and quantiles are over the training clients."""

    leakage_median: float | None
    leakage_max: float | None
    leakage_quantiles: dict[str, float] | None
    leakage_by_cluster: list[ClusterLeakage] | None
    leakage_per_release: float | None
    """n / nu."""
    participations_max: int
    """Rounds of whoever took part most; where who took part is secret, all rounds."""
    refusals: int
    withheld: int
    epsilon_max: float | None
    """The largest of `epsilon`, whoever looks: no claim is stronger than the weakest."""
    epsilon: list[EpsilonSection]
    """One for each observer; empty where there is no epsilon with a delta."""
    records: RecordsSection | None
    reasons: Reasons


class Utility(_Part):
    """How well the best hypotheses predict held-out clients."""

    validation_loss: float | None
    selection_loss: float | None
    """The smallest loss over hypotheses: chooses when to stop, flatters as a measure of quality."""
    accuracy: float | None
    rounds: int
    best_round: int
    stopped_by: str
    reasons: Reasons


class IntervalSection(_Part):
    """A percentile interval over clients drawn anew."""

    low: float
    high: float
    level: float
    method: str
    samples: int


class MetricSection(_Part):
    """One gap. A reason beside a value says what the value leaves out."""

    value: float | None
    reason: str | None
    interval: IntervalSection | None
    interval_reason: str | None


class GroupSection(_Part):
    """The rates of one group; a suppressed group shows none. Counts are confidential."""

    value: str
    suppressed: bool
    selection_rate: Share | None
    true_positive_rate: Share | None
    false_positive_rate: Share | None
    reasons: Reasons


class FairnessSection(_Part):
    """One sensitive attribute, its rates pooled over the rows of the validation clients."""

    attribute: str
    reference_group: str | None
    groups: list[GroupSection]
    metrics: dict[str, MetricSection]


class GateSection(_Part):
    """One condition and whether it holds."""

    figure: str
    attribute: str | None
    op: Literal["le", "ge"]
    bound: float
    value: float | None
    outcome: Outcome
    reason: str


class Data(_Part):
    """The federation, in numbers."""

    source: str
    clients: int
    training_clients: int
    validation_clients: int
    rows: int
    parameters: int
    notes: list[str]


class Provenance(_Part):
    """Where the figures come from."""

    spec_hash: str
    data_fingerprint: str
    code_version: str | None
    libraries: dict[str, str] | None
    device: str | None
    backend: dict[str, str] | None
    seed: int
    started_at: str | None
    finished_at: str | None
    reasons: Reasons


class Integrity(_Part):
    """What binds the report to its ledger, and to whoever signed it."""

    ledger_hash: str
    chain_head: str
    entries: int
    """How many ledger entries there are."""
    signature: str | None
    """Ed25519, in base64, over the DSSE encoding of the report without this field."""
    key_id: str | None
    reasons: Reasons


class Report(_Part):
    """The audit report of one experiment."""

    report_version: Literal[1] = 1
    experiment: Experiment
    verdict: str
    guarantee: GuaranteeSection
    privacy: Privacy
    utility: Utility
    fairness: list[FairnessSection]
    attacks: list[dict[str, Any]]
    gates: list[GateSection]
    gate_outcome: Outcome | None
    """The worst of the gates; None where the spec has none."""
    data: Data
    spec: dict[str, Any]
    """The spec with every default explicit: the provenance's spec_hash is taken over it."""
    provenance: Provenance
    limits: list[str]
    """What this report does not show."""
    integrity: Integrity


def schema() -> dict[str, Any]:
    """The report's JSON schema."""
    return Report.model_json_schema(mode="serialization")
