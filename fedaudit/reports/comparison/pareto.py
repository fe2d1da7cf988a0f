"""Pareto fronts: which of several points are not dominated."""

from collections.abc import Sequence


def dominated_by(points: Sequence[Sequence[float]]) -> list[list[int]]:
    """For each point the indices of those that dominate it; empty for a point on the front.

    Points have one finite value per axis; lower is better. A point dominates another if it is
    nowhere worse and somewhere better, so equal points do not dominate each other.
    """
    return [[i for i, other in enumerate(points) if _dominates(other, point)] for point in points]


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
