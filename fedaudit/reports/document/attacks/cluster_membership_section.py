"""What a report says of hypothesis membership. A figure that is None has its reason beside it."""

from typing import Literal

from fedaudit.reports.document.attacks.attack_section import AttackSection
from fedaudit.reports.document.attacks.confidence_limits import ConfidenceLimits, Share
from fedaudit.reports.document.part import Part


class NamedShare(Part):
    """The share of clients whose hypothesis the server names, by one rule."""

    value: Share | None
    interval: ConfidenceLimits | None
    """Clopper and Pearson's, at the section's `confidence`; the unit is the client."""
    reason: str | None


class HypothesisNamed(Part):
    """The same of the clients that chose one hypothesis."""

    hypothesis: int
    suppressed: bool
    nearest: NamedShare


class ClusterMembershipResult(Part):
    """What the server told from uploads at one noise multiplier."""

    noise_multiplier: float
    nearest: NamedShare
    """By the hypothesis nearest to the upload."""
    assigned: NamedShare
    """By the cluster that the server puts the upload into, as the run does it."""
    separation: float | None
    """Median distance of the uploads to the hypothesis of their cluster, over that hypothesis's
    distance to the nearest other."""
    exponent_median: float | None
    """Between the two nearest hypotheses, over the uploads: the logarithm of the largest factor by
    which what the server receives can be likelier under one than under the other, for the same
    update. Of an adaptive radius it is heuristic, and rounded up to two digits."""
    exponent_max: float | None
    by_hypothesis: list[HypothesisNamed]
    reasons: dict[str, str]


class ClusterMembershipSection(AttackSection):
    """How often the server names the hypothesis that a client chose, beside mere chance."""

    kind: Literal["cluster-membership"]
    unit: Literal["client"]
    clients: int
    """Training clients, each of which makes one upload at each noise multiplier."""
    hypotheses: int
    smallest_distance: float
    """Between two of the hypotheses, Euclidean."""
    chance: Share | None
    """The share of the hypothesis that most clients chose: what naming it every time gets right."""
    confidence: float
    results: list[ClusterMembershipResult]
    """By noise multiplier, ascending."""
    reasons: dict[str, str]
