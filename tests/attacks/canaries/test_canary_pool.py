"""What canaries require, each fault with its field and remedy, and the directions they send in."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from fedaudit.attacks.canaries.canary_pool import faults
from fedaudit.attacks.canaries.planted_canaries import draw_canaries
from fedaudit.randomness import CounterSource
from fedaudit.spec.attacks import CanariesSpec, CanaryUnit
from fedaudit.training.base.cell import Cell
from tests.attacks.canaries.canary_cells import CENTRAL, LOCAL, RECORDS, canary_cell, record_cell
from tests.spec.documents import refusals

LINEAR = {"model": {"kind": "linear", "intercept": False}}
"""A model of two parameters."""
NONE = {"mechanism": "none"}
LAPLACE = {"mechanism": "laplace-l2", "noise_multiplier": 1.0, "per_layer": True}
ADAPTIVE = {**CENTRAL, "clip": {"adaptive": {"initial": 1.0, "count_noise": 5.0}}}
BASELINE = {
    "privacy": {**RECORDS, "baseline": "uniform"},
    "training__local": {"steps": 2, "batch_size": 4, "step_size": 0.01},
}
QFFL = {"training__method": {"kind": "q-ffl", "q": 1.0}}


@pytest.mark.parametrize(
    ("made", "count", "words"),
    [
        (partial(canary_cell, CENTRAL), 50, None),
        (partial(canary_cell, CENTRAL), 51, "more than the clients .* lower `count` to 50"),
        (partial(canary_cell, CENTRAL, **LINEAR), 51, "collide .* lower `count` to 2"),
        (record_cell, 5000, "records that train and are ever sampled; lower `count`$"),
        (partial(canary_cell, CENTRAL, **LINEAR), 2, None),
        (partial(canary_cell, CENTRAL, **LINEAR), 3, "collide .* lower `count` to 2"),
        # Each upload is a release by itself, with room for its one canary.
        (partial(canary_cell, LOCAL, **LINEAR), 30, None),
        (partial(record_cell, **LINEAR), 200, None),
        (partial(record_cell, **LINEAR), 450, "collide .* lower `count` or use a larger model$"),
    ],
)
def test_canaries_need_room(made: Callable[[], Cell], count: int, words: str | None) -> None:
    cell = made()
    unit: CanaryUnit = "client" if cell.spec.privacy.mechanism != RECORDS["mechanism"] else "record"
    found = faults(CanariesSpec(unit=unit, count=count), cell, pointer="/attacks/0")
    assert [fault.pointer for fault in found] == ["/attacks/0/count"] * (words is not None)
    assert all(re.search(words or "", fault.message) for fault in found)


def test_without_a_mechanism_there_is_nothing_to_test() -> None:
    spec = CanariesSpec(unit="client", count=2)
    [found] = faults(spec, canary_cell(NONE), pointer="/attacks/0")
    assert found.pointer == "/attacks/0/kind"
    assert "claims nothing" in found.message


@pytest.mark.parametrize(
    ("made", "unit", "pointers"),
    [
        (partial(canary_cell, CENTRAL), "record", ["/attacks/0/unit"]),
        (partial(canary_cell, LOCAL), "record", ["/attacks/0/unit"]),
        (partial(canary_cell, NONE), "record", ["/attacks/0/unit"]),
        (partial(canary_cell, ADAPTIVE), "client", ["/privacy/clip"]),
        (partial(canary_cell, LAPLACE), "client", ["/privacy/per_layer"]),
        (partial(canary_cell, NONE, **QFFL), "client", ["/training/method/kind"]),
        (record_cell, "record", []),
        (record_cell, "client", ["/attacks/0/unit"]),
        (partial(record_cell, **BASELINE), "record", ["/privacy/baseline"]),
    ],
)
def test_a_spec_that_disagrees_names_the_field(made, unit, pointers):
    assert list(refusals(CanariesSpec(unit=unit, count=2), made().spec)) == pointers


@pytest.mark.parametrize(
    ("release", "n", "orthogonal"),
    [
        (np.zeros(40, np.int64), 40, True),
        (np.arange(200) // 20, 30, True),
        (np.zeros(300, np.int64), 150, False),
    ],
)
def test_sums_and_projections_are_those_of_the_directions(release, n, orthogonal):
    def drawn(seed: int) -> Any:
        return draw_canaries(release, n=n, adjacency="replace-one", source=CounterSource(seed))

    canaries, numbers = drawn(3), np.arange(len(release))
    directions = canaries.directions
    vectors = directions.vectors(numbers).astype(np.float64)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    weights = np.random.default_rng(0).standard_normal(len(release))
    count = int(release.max()) + 1
    summed = directions.summed(weights, release, numbers, releases=count)
    expected = [weights[release == one] @ vectors[release == one] for one in range(count)]
    np.testing.assert_allclose(summed, expected, atol=1e-4)
    along = directions.along(summed, release, numbers)
    np.testing.assert_allclose(along, (summed[release] * vectors).sum(1), atol=1e-4)
    same = (release[:, None] == release) & ~np.eye(len(release), dtype=bool)
    largest = np.abs(vectors @ vectors.T)[same].max(initial=0.0)
    assert canaries.correlation() == pytest.approx(largest, abs=1e-6)
    assert (canaries.correlation() == 0) == orthogonal
    assert np.array_equal(drawn(3).directions.vectors(numbers), directions.vectors(numbers))
    assert not np.array_equal(drawn(4).directions.vectors(numbers), directions.vectors(numbers))
