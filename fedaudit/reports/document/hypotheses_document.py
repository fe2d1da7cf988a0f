"""Parts of the report document about its hypotheses: how far apart they are, and where they lie.

A figure that is None has its reason in the `reasons` map of the same object.
"""

from fedaudit.privacy.accounting.mechanism_parameters import GuaranteeKind
from fedaudit.reports.document.part import Part

Point = tuple[float, float]
Points = list[Point]


class HypothesisPair(Part):
    """How far one release hides which of two hypotheses a client chose."""

    first: int
    second: int
    distance: float
    """Euclidean distance between the two, at the end of the run."""
    epsilon: float | None
    """n / (nu r) per unit of distance, of a fixed and public radius r."""
    epsilon_median: float | None
    """Over the releases of the best round. Of an adaptive radius both are rounded up to two
    digits, so that nobody's norm is stated."""
    epsilon_max: float | None
    indistinguishability_median: float | None
    """`epsilon_median` times `distance`."""
    indistinguishability: float | None
    """`epsilon_max` times `distance`: for the same update from either hypothesis, the logarithm of
    how much likelier one may make what the server receives. Small hides the choice."""
    worst_case: float | None
    """The same for any two datasets that choose these two, where updates are clipped."""
    guarantee: GuaranteeKind
    reasons: dict[str, str]


class BetweenHypotheses(Part):
    """Between which hypotheses clients can be told apart; the choice has no noise of its own."""

    pairs: list[HypothesisPair]
    """All of them, or of more than six hypotheses the nearest two and the farthest two."""
    pairs_in_all: int
    statement: str


class PlaneRound(Part):
    """A round of a model of two parameters, as the server saw it. Synthetic data only."""

    round: int
    hypotheses: Points
    """Those that came of the round."""
    uploads: Points
    """At most 100 of those released, evenly spaced over the clients that took part."""
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
    """Up to 50 earlier rounds, evenly spaced, the start among them."""
    first: PlaneRound | None
    """The first round that was validated, where that is not the best."""
    truth: Points
    """The parameters that generated the data, one for each distribution."""
    reasons: dict[str, str]
