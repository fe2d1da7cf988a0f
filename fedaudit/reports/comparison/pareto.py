"""Pareto fronts: which of several points nothing else beats on every axis."""

from collections.abc import Sequence


def dominated_by(points: Sequence[Sequence[float]]) -> list[list[int]]:
    """For each point the indices of those that dominate it; none for a point on the front.

    Points have one finite value an axis, lower being better. A point dominates another where it is
    nowhere worse and somewhere better, so equal points leave each other on the front.
    """
    return [[i for i, other in enumerate(points) if _dominates(other, point)] for point in points]


def _dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
