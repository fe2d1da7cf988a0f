"""The fields of the section `fairness`."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.reports.sections.part import (
    WHERE_GIVEN,
    IntervalSection,
    LastRounds,
    Part,
    Reasons,
    Share,
    with_rates,
)


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
    """How far it moved at the end of training, which the interval takes as it ended."""
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
    auc: Share | None = None
    """Of the group's rows, as `utility.auc`."""
    loss: Annotated[float, Field(ge=0)] | None = None
    """With the group's rows taken as those of one client, in the unit of the validation loss."""
    rows: int | None = None
    """The group's size by counts with noise; None where counts have none, since exact sizes are
    confidential."""
    reasons: Reasons


class GroupPrivacyCost(Part):
    """What the training clients of one group paid, as coarse means. With the unit `record` a client
    counts in a mean by how many rows of the group it has. Their number, totals and largest figures
    are sums over the clients' sensitive values, of which a few dozen give these back, or name who
    paid more than all of the group."""

    value: str
    suppressed: bool
    leakage_mean: float | None
    participations_mean: float | None
    refusals_mean: float | None
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


class FairnessSection(Part):
    """One sensitive attribute, its rates pooled over the rows of the validation clients."""

    attribute: str
    averaging: Literal["records"] = "records"
    """How `groups` and `metrics` are counted: every scored row, regardless of its client."""
    intersection_of: list[str] | None = None
    """The attributes whose combinations these groups are; None where the data hold the attribute
    itself."""
    favourable: str | None = None
    """The outcome that rates count, in words."""
    favourable_reason: str | None = None
    reference_group: str | None
    groups: list[GroupSection]
    metrics: dict[str, MetricSection]
    privacy_cost_by_group: PrivacyCostSection | None = None
    privacy_cost_by_group_reason: str | None = None
    cross_check: CrossCheck | None = None
    cross_check_reason: str | None = None


class FiguresDisagreeError(Exception):
    """Two computations of the same figure gave different values; the message names them."""
