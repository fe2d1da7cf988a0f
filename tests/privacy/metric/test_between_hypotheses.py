"""What noise hides between two hypotheses, against densities computed by hand."""

import numpy as np
import pytest

from fedaudit.privacy.leakage import (
    clipped_reach,
    exponents,
    listed_pairs,
    part_distances,
)


def test_the_exponent_is_reached_and_never_passed():
    """The density K exp(-epsilon ||x||) of one layer each, two layers, far and near outputs."""
    rng = np.random.default_rng(4)
    hypotheses = rng.normal(size=(2, 5)).astype(np.float32)
    rates, parts = np.array([[0.7, 2.5]]), (2, 3)
    (bound,) = exponents(rates, part_distances(hypotheses, parts=parts)[0, 1])
    first, second = hypotheses.astype(np.float64)

    def log_density(outputs, center):
        apart = outputs - center
        return -0.7 * np.linalg.norm(apart[..., :2], axis=-1) - 2.5 * np.linalg.norm(
            apart[..., 2:], axis=-1
        )

    outputs = rng.normal(scale=5, size=(20_000, 5))
    ratios = np.abs(log_density(outputs, first) - log_density(outputs, second))
    assert ratios.max() <= bound
    # Beyond one of the two, on the line through both, in each layer: the bound itself.
    assert abs(log_density(first, first) - log_density(first, second)) == pytest.approx(
        bound, rel=1e-12
    )


def test_clipped_updates_reach_no_further():
    """Random updates of norm 2c between any two datasets, over layers of unlike rates."""
    rng = np.random.default_rng(5)
    rates, clip = np.array([[0.3, 4.0, 1.0]]), 0.8
    (reach,) = clipped_reach(rates, clip=clip)
    apart = rng.normal(size=(50_000, 3, 4))
    apart *= 2 * clip / np.linalg.norm(apart.reshape(-1, 12), axis=1)[:, None, None]
    found = np.linalg.norm(apart, axis=2) @ rates[0]
    assert found.max() <= reach
    worst = np.zeros((3, 4))
    worst[:, 0] = 2 * clip * rates[0] / np.linalg.norm(rates[0])
    assert float(np.linalg.norm(worst, axis=1) @ rates[0]) == pytest.approx(reach)


def test_distances_by_part_make_up_the_whole():
    hypotheses = np.array([[0, 0, 0], [3, 4, 12], [3, 4, 0]], np.float32)
    found = part_distances(hypotheses, parts=(2, 1))
    np.testing.assert_array_equal(found[0, 1], [5, 12])
    np.testing.assert_array_equal(found[1, 0], [5, 12])
    np.testing.assert_array_equal(found[1, 2], [0, 12])
    np.testing.assert_array_equal(np.linalg.norm(found, axis=-1)[0], [0, 13, 5])
    three = part_distances(hypotheses, parts=(1, 1, 1))
    np.testing.assert_array_equal(three[0, 1], [3, 4, 12])
    for parts in ((2,), (2, 2)):
        with pytest.raises(ValueError, match=f"of {sum(parts)} parameters .* cannot make up 3"):
            part_distances(hypotheses, parts=parts)


def test_all_pairs_of_six_and_two_of_seven():
    distances = np.abs(np.subtract.outer(np.arange(7.0) ** 2, np.arange(7.0) ** 2))
    assert len(listed_pairs(distances[:6, :6])) == 15
    assert listed_pairs(distances) == [(0, 1), (0, 6)]
    assert listed_pairs(np.zeros((1, 1))) == []
