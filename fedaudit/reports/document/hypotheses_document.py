"""Parts of the report document about its hypotheses: the distances between them, and their
positions.

A figure that is None has its reason in the `reasons` map of the same object.
"""

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.reports.document.part import Part

Point = tuple[float, float]
Points = list[Point]


class HypothesisPair(Part):
    """How well one release hides which of two hypotheses a client chose."""

    first: int
    second: int
    distance: float
    """Euclidean distance between the two, at the end of the run."""
    epsilon: float | None
    """n / (nu r) per unit of distance, for a fixed and public radius r."""
    epsilon_median: float | None
    """Over the releases of the best round. With an adaptive radius both are rounded up to two
    digits, so that they do not reveal the norm of any update."""
    epsilon_max: float | None
    indistinguishability_median: float | None
    """`epsilon_median` times `distance`."""
    indistinguishability: float | None
    """`epsilon_max` times `distance`: the logarithm of the largest factor by which what the server
    receives can be likelier under one hypothesis than under the other, for the same update. A small
    value hides the choice."""
    worst_case: float | None
    """The same for any two datasets that choose these two hypotheses, where updates are clipped."""
    guarantee: GuaranteeKind
    reasons: dict[str, str]


class BetweenHypotheses(Part):
    """How well an upload hides its client's hypothesis; the choice has no noise of its own."""

    pairs: list[HypothesisPair]
    """All pairs, or with more than six hypotheses the nearest and the farthest pair."""
    pairs_in_all: int
    statement: str


class PlaneRound(Part):
    """A round of a model of two parameters, as the server saw it. Synthetic data only."""

    round: int
    hypotheses: Points
    """The hypotheses after the round."""
    uploads: Points
    """At most 100 of the released uploads, evenly spaced over the clients that took part."""
    clusters: list[int]
    """The cluster that each upload was put into."""


class PathPoint(Part):
    """Where the hypotheses stood after a round; before the first, in round 0."""

    round: int
    hypotheses: Points


class Plane(PlaneRound):
    """The best round in the plane of its two parameters (Galli et al., Figure 1)."""

    parameters: tuple[str, str]
    """What the axes are."""
    path: list[PathPoint]
    """Up to 50 earlier rounds, evenly spaced, including the start."""
    first: PlaneRound | None
    """The first validated round, where it is not the best."""
    truth: Points
    """The parameters that generated the data, one row per distribution."""
    reasons: dict[str, str]
