"""What a report says of canaries: claim and measurement side by side."""

from typing import Annotated, Literal

from pydantic import Field

from fedaudit.privacy.accounting.privacy_events import Adjacency, Observer
from fedaudit.reports.document.attacks.attack_section import AttackSection
from fedaudit.reports.document.attacks.confidence_limits import Share
from fedaudit.reports.document.part import Part
from fedaudit.spec.attacks.canaries_spec import CanaryUnit

BoundName = Literal["known-noise", "f-dp", "one-run", "summed-releases"]

SUFFICIENT_POWER = 0.8
"""Below this power, silence is no all-clear."""


class CanaryBound(Part):
    """A lower bound on epsilon."""

    name: BoundName
    epsilon_lower_bound: Annotated[float, Field(ge=0)]
    """At the delta of the claim; 0 is no evidence of any loss."""
    significance: Share
    """The chance that the bound lies above the truth, at most."""
    power: Share
    """The chance of an alarm were the noise half of what is claimed, as the first attack on a run,
    computed before it."""
    assumption: str
    """What the bound takes for granted."""
    canaries: Annotated[int, Field(ge=0)]
    """How many of them it uses."""
    all_clear: str | None
    """Why no alarm of this bound is no all-clear; None where an alarm would have been likely."""
    e_value: Annotated[float, Field(ge=0)] | None = None
    """Evidence against the claim by what this bound measures; None where none is claimed."""


class MetricAudit(Part):
    """Two inputs under the Laplace mechanism: its unit is a leakage, which is no epsilon of
    (epsilon, delta)-differential privacy."""

    radius: Literal["fixed", "adaptive"]
    leakage_claim: float
    """n/nu times the share that the two inputs' distance has of the radius; with an adaptive
    radius n/nu itself, which no theorem covers."""
    distance_over_radius: float | None
    """None for an adaptive radius, where the two differ in norm."""
    releases: int
    leakage_lower_bound: float | None
    """From below, at the significance; None where nothing was tested."""
    largest_log_ratio: float | None
    """Of an adaptive radius: the largest logarithm of a likelihood ratio seen; None for a fixed
    one, whose test takes its noise for unknown."""
    median_log_ratio: float | None
    significance: Share | None
    power: Share | None
    assumption: str
    reason: str | None
    """Why no bound is given; None where one is."""


class CanariesSection(AttackSection):
    """Canaries beside the claim that they test."""

    kind: Literal["canaries"] = "canaries"
    unit: CanaryUnit
    count: int
    included: int | None
    """How many the coins let in; None where nothing was trained."""
    claim: float | None
    """The epsilon that the canaries' unit is promised, over as many releases as the companion
    made; None where no epsilon is claimed."""
    claim_reason: str | None
    """Why there is none."""
    delta: float | None
    adjacency: Adjacency | None
    observer: Observer | None
    compositions: int | None
    """Releases that the claim counts."""
    correlation: float | None
    """The largest cosine between the directions of two canaries of one release: 0 where they are
    orthogonal or share no release; None where nothing was trained."""
    bounds: list[CanaryBound]
    stopped_in: int | None = None
    """With `stop`: the companion's round in which the evidence was enough to end the run; None
    where it never was, or nobody asked."""
    metric: MetricAudit | None = None
    """Of `laplace-l2`."""
