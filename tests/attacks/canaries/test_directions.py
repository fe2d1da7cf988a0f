"""Directions of canaries: orthogonal where there is room, and honest about it elsewhere."""

import numpy as np
import pytest

from fedaudit.attacks.canaries.directions import AxisDirections, RandomDirections, draw_directions
from fedaudit.randomness import CounterSource


@pytest.mark.parametrize(
    ("release", "n", "kind"),
    [
        (np.zeros(40, np.int64), 40, AxisDirections),
        (np.arange(200) // 20, 30, AxisDirections),
        (np.zeros(300, np.int64), 150, RandomDirections),
    ],
)
def test_sums_and_projections_are_those_of_the_vectors(
    release: np.ndarray, n: int, kind: type
) -> None:
    directions = draw_directions(release, n=n, source=CounterSource(3))
    assert isinstance(directions, kind)
    numbers = np.arange(len(release))
    vectors = directions.vectors(numbers).astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    weights = np.random.default_rng(0).standard_normal(len(release))
    count = int(release.max()) + 1
    summed = directions.summed(weights, release, numbers, releases=count)
    for one in range(count):
        own = release == one
        np.testing.assert_allclose(summed[one], weights[own] @ vectors[own], atol=1e-4)
    along = directions.along(summed, release, numbers)
    np.testing.assert_allclose(along, (summed[release] * vectors).sum(1), atol=1e-4)
    same = (release[:, None] == release) & ~np.eye(len(release), dtype=bool)
    largest = np.abs(vectors @ vectors.T)[same].max(initial=0.0)
    assert directions.correlation() == pytest.approx(largest, abs=1e-6)
    assert (directions.correlation() == 0) == (kind is AxisDirections)


def test_seeds_draw_other_directions() -> None:
    release = np.zeros(20, np.int64)
    found = [
        draw_directions(release, n=100, source=CounterSource(seed)).vectors(np.arange(20))
        for seed in (1, 1, 2)
    ]
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
