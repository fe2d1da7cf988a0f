"""The report, version 1: the shape of the JSON document, and its schema.

A figure that is None has its reason beside it: in the `reasons` map of the same object under the
field's name, or in `reason` where the object holds one figure.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.privacy.guarantees.guarantee import GuaranteeLabel
from fedaudit.reports.document.aliases import fill_cost_aliases, without_retired_rows
from fedaudit.reports.document.attacks.reported_attack import ReportedAttack
from fedaudit.reports.document.held_out_document import FairnessPrivacy, IntervalSection, LastRounds
from fedaudit.reports.document.hypotheses_document import BetweenHypotheses, Plane
from fedaudit.reports.document.model_document import ModelSection
from fedaudit.reports.document.outcomes import GateOutcome
from fedaudit.reports.document.part import WHERE_GIVEN
from fedaudit.reports.document.part import Part
from fedaudit.reports.document.rate_fields import with_rates
from fedaudit.reports.document.records_document import RecordsSection
from fedaudit.reports.document.sweep_document import RepeatsSection, SweepSection
from fedaudit.reports.document.utility_document import Utility
from fedaudit.reports.document.verdict_parts import VerdictParts

REPORT_VERSION = 1

Reasons = dict[str, str]
Share = Annotated[float, Field(ge=0, le=1)]


class Experiment(Part):
    """Which experiment the report is about."""

    id: str
    name: str
    spec_hash: str
    status: str


class GuaranteeSection(Part):
    """Who is protected against whom, and how far."""

    kind: GuaranteeKind
    label: GuaranteeLabel | None = None
    """The kind, with *within the radius* where the proof goes no further. Reports of earlier
    versions have none, and neither of the two below."""
    in_force: bool | None = None
    """Whether the noise was secret. False for simulated noise, which protects nobody, and where
    there is no guarantee."""
    conditions: dict[str, str] | None = None
    """By figure, why it bounds some datasets only; gates on such a figure ask for
    `allow_conditional`."""
    mechanism: str
    unit: str
    adjacency: str | None
    delta: float | None
    observers: list[str]
    statement: str
    reasons: Reasons


class ClusterLeakage(Part):
    """Leakage of the clients whose last upload went into one cluster."""

    cluster: int
    clients: int
    leakage_median: float
    leakage_max: float


class ComponentLeakage(Part):
    """What a release costs in one layer, which has noise of its own."""

    component: str
    parameters: int
    leakage_per_release: float
    """n_l / nu; over the layers these add up to n / nu."""


class EpsilonSection(Part):
    """The largest epsilon that anyone spent, against one observer."""

    observer: str
    delta: float
    adjacency: str
    accountant: str
    value: Annotated[float, Field(ge=0)]


class Privacy(Part):
    """What training spent. Medians and quantiles are over the training clients."""

    leakage_median: float | None
    leakage_max: float | None
    leakage_quantiles: dict[str, float] | None
    leakage_by_cluster: list[ClusterLeakage] | None
    leakage_per_release: float | None
    """n / nu."""
    log_ratio_max: float | None = None
    """Theorem's sum for the client that took part most: over the run, the largest exponent between
    any two of a client's datasets that choose the same hypothesis in every round."""
    leakage_by_component: list[ComponentLeakage] | None = None
    """With noise layer by layer; None where one noise covers the whole update."""
    between_hypotheses: BetweenHypotheses | None = None
    participations_max: int
    """Rounds of the client that took part most; where participation is secret, all rounds."""
    refusals: int
    withheld: int
    epsilon_max: float | None
    """The largest of `epsilon` over the observers: no claim is stronger than the weakest."""
    epsilon: list[EpsilonSection]
    """One for each observer; empty where there is no epsilon with a delta."""
    epsilon_planned: float | None = None
    """The largest epsilon of all rounds that were planned, where validation losses ended the run
    early: what is proven then. None where they did not, and in earlier reports."""
    records: RecordsSection | None
    noise_multiplier: float | None = None
    """The mechanism's noise multiplier, as set in the spec or calibrated from public numbers."""
    reasons: Reasons


class NullSection(Part):
    """How large a gap comes out if the attribute has nothing to do with outcome and prediction."""

    unit: Literal["client", "record"]
    """What was exchanged between groups: whole clients with all their rows, or single rows."""
    permutations: int
    """How many assignments to groups the figures below are taken over."""
    mean: float
    quantile_95: float | None
    """For a difference: exceeded in one of twenty assignments."""
    quantile_05: float | None
    """For a ratio: one of twenty assignments lies below it."""
    p_value: Share
    """(1 + assignments with a gap at least as wide) / (1 + permutations)."""
    reasons: Reasons


class MetricSection(Part):
    """One gap. A reason beside a value says what the value leaves out."""

    value: float | None
    reason: str | None
    interval: IntervalSection | None
    interval_reason: str | None
    null: NullSection | None = None
    null_reason: str | None = None
    last_rounds: LastRounds | None = None
    """How far it moved at the end of training, which the interval takes as it ended. Earlier
    reports have none."""
    last_rounds_reason: str | None = None


@with_rates(after="suppressed")
class GroupSection(Part):
    """The figures of one group; a suppressed group shows none. Counts are confidential."""

    value: str
    label: Annotated[str | None, WHERE_GIVEN] = None
    """What the spec's `federation.labels` call the group; absent where they leave its code."""
    suppressed: bool
    accuracy: Share | None = None
    baseline_accuracy: Share | None = None
    """What the constant prediction of `utility` gets right of the group's rows."""
    accuracy_over_baseline: float | None = None
    accuracy_over_baseline_interval: IntervalSection | None = None
    loss: Annotated[float, Field(ge=0)] | None = None
    """With the group's rows taken as those of one client, in the unit of the validation loss."""
    rows: int | None = None
    """The group's size by counts with noise; None where counts have none, since exact sizes are
    confidential."""
    reasons: Reasons


@with_rates(after="suppressed")
class HypothesisGroup(Part):
    """The rates of one group's rows that one hypothesis predicted."""

    value: str
    suppressed: bool
    reasons: Reasons


class FigureSection(Part):
    """One figure. A reason beside a value says what the value leaves out."""

    value: float | None
    reason: str | None


class HypothesisSection(Part):
    """The rows that one hypothesis predicted, by group, and their gaps."""

    hypothesis: int
    groups: list[HypothesisGroup]
    metrics: dict[str, FigureSection]


@with_rates(after="clients")
class ClientAveragedGroup(Part):
    """Of one group: the mean over clients of each client's own rate, every client alike."""

    value: str
    suppressed: bool
    clients: int | None
    """Validation clients with scored rows of the group."""
    reasons: Reasons


class ClientAveragedSection(Part):
    """Rates averaged over clients, each over those that have a denominator, and their gaps."""

    groups: list[ClientAveragedGroup]
    metrics: dict[str, FigureSection]


class GroupPrivacyCost(Part):
    """What the training clients of one group paid: coarse means, and nulls otherwise.

    Earlier reports have all but `refusals_mean`, exact. With the unit `record` a client counts in a
    mean by how many rows of the group it has.
    """

    value: str
    suppressed: bool
    clients: int | None
    """Training clients with rows of the group."""
    leakage_mean: float | None
    leakage_max: float | None
    participations_mean: float | None
    participations_max: int | None
    refusals: int | None
    """Of those clients; with the unit `record` a client counts in every group it has rows of."""
    refusals_mean: float | None = None
    epsilon_max: float | None
    reasons: Reasons


class PrivacyCostSection(Part):
    """What training cost by group: over training clients, where it is no secret who took part."""

    unit: Literal["client", "record"]
    """`client` where every training client has rows of only one group."""
    groups: list[GroupPrivacyCost]


class CrossCheck(Part):
    """What another library computed from the rows themselves, and how far it is from the report.

    A run whose figures differ by more than rounding has no report
    (`fedaudit.reports.sections.cross_check`). A bundle carries no rows, so verification cannot
    repeat this. The number of rows is left out: counts are confidential.
    """

    library: str
    version: str
    largest_difference: Annotated[float, Field(ge=0)]
    metrics: list[str]
    """The names of the figures that both have: rates of groups, then gaps."""

    _without_rows = model_validator(mode="before")(without_retired_rows)


class FairnessSection(Part):
    """One sensitive attribute, its rates pooled over the rows of the validation clients."""

    attribute: str
    averaging: Literal["records"] = "records"
    """How `groups` and `metrics` are counted: every scored row, regardless of its client."""
    intersection_of: list[str] | None = None
    """The attributes whose combinations these groups are; None where the data hold the attribute
    itself."""
    favourable: str | None = None
    """The outcome that rates count, in words. Reports of earlier versions have none."""
    favourable_reason: str | None = None
    """Why no outcome is favourable."""
    reference_group: str | None
    groups: list[GroupSection]
    metrics: dict[str, MetricSection]
    by_hypothesis: list[HypothesisSection] = Field(default_factory=list)
    by_hypothesis_reason: str | None = None
    """Why `by_hypothesis` is empty."""
    client_averaged: ClientAveragedSection | None = None
    client_averaged_reason: str | None = None
    privacy_cost_by_group: PrivacyCostSection | None = None
    privacy_cost_by_group_reason: str | None = None
    who_pays: PrivacyCostSection | None = None
    """Alias of `privacy_cost_by_group`, its name in earlier reports."""
    who_pays_reason: str | None = None

    cross_check: CrossCheck | None = None
    cross_check_reason: str | None = None

    _filled = model_validator(mode="before")(fill_cost_aliases)


class GateSection(Part):
    """One condition and whether it holds."""

    figure: str
    attribute: str | None
    """The one that the gate names; of a gate on each of several, the one that decides."""
    op: Literal["le", "ge"]
    bound: float
    value: float | None
    outcome: GateOutcome
    reason: str


class Data(Part):
    """The federation, in numbers."""

    source: str
    clients: int
    training_clients: int
    validation_clients: int
    rows: int
    parameters: int
    positive_class: Annotated[str | None, WHERE_GIVEN] = None
    """Of a target with two classes the one that is favourable without a rule; absent otherwise."""
    notes: list[str]


class Provenance(Part):
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


class Integrity(Part):
    """What binds the report to its ledger, and to whoever signed it."""

    ledger_hash: str
    chain_head: str
    entries: int
    """How many ledger entries there are."""
    signature: str | None
    """Ed25519, in base64, over the DSSE encoding of the report without this field."""
    key_id: str | None
    reasons: Reasons


class Report(Part):
    """The audit report of one experiment."""

    report_version: Literal[1] = 1
    experiment: Experiment
    verdict: str
    """The four parts below, one after the other; of earlier reports one text."""
    verdict_parts: VerdictParts | None = None
    """None in reports of earlier versions."""
    guarantee: GuaranteeSection
    privacy: Privacy
    utility: Utility
    fairness: list[FairnessSection]
    fairness_privacy: FairnessPrivacy | None = None
    fairness_privacy_reason: str | None = None
    attacks: list[ReportedAttack]
    """What was tried against the run, in the order of the spec."""
    model: ModelSection | None = None
    model_reason: str | None = None
    gates: list[GateSection]
    gate_outcome: GateOutcome | None
    """The worst of the gates; None where the spec has none."""
    plane: Plane | None = None
    plane_reason: str | None = None
    sweep: SweepSection | None = None
    sweep_reason: str | None = None
    repeats: RepeatsSection | None = None
    repeats_reason: str | None = None
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
