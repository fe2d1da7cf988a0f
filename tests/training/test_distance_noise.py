"""`gaussian-distance`: the formula of its noise, on both engines, and what its report claims."""

from typing import Any

import numpy as np
import pytest
import torch

from fedaudit.randomness import CounterSource
from fedaudit.spec.parse import parse_spec
from fedaudit.training.base.cell import Cell
from fedaudit.training.mechanisms.gaussian import LargestDistance, TrustedServer
from fedaudit.training.mechanisms.registry import build_protection
from fedaudit.training.stack import Stack
from tests.refusals import refused_by
from tests.training.federations import one_by_one, random_federation, table_cell
from tests.training.gaussian import DISTANCE, state
from tests.training.specs import groups_spec

FLOORS = torch.full((1, 1), 1e-6, dtype=torch.float64)


def test_it_is_the_largest_mean_over_layers_between_two_clients() -> None:
    models = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)
    layers = (slice(0, 4), slice(4, 7))
    expected = max(
        np.mean([np.linalg.norm(one[layer] - other[layer]) for layer in layers])
        for one in models
        for other in models
    )
    measure = LargestDistance((4, 3), FLOORS)
    present = torch.ones(1, 5, dtype=torch.bool)
    found = measure(torch.from_numpy(models)[None], present)
    assert found.item() == pytest.approx(expected, rel=1e-6)
    # An update that is not finite, or that only pads, is no client's model.
    models[2] = np.nan
    without = measure(torch.from_numpy(models)[None], present & (torch.arange(5) != 2))
    again = measure(torch.from_numpy(np.delete(models, 2, axis=0))[None], present[:, :4])
    assert without.item() == again.item() > 0


def test_one_client_or_clients_all_alike_get_the_noise_of_the_floor() -> None:
    measure, same = LargestDistance((3,), FLOORS), torch.ones(1, 4, 3)
    assert measure(same, torch.ones(1, 4, dtype=torch.bool)).item() == 1e-6
    assert measure(same, torch.arange(4)[None] == 1).item() == 1e-6


@pytest.mark.parametrize("padded", [True, False], ids=["side by side", "client by client"])
def test_the_noise_is_z_clips_over_clients_times_distance(padded: bool) -> None:
    """Of a round whose cohort is everyone: what came out, less the average of clipped updates."""
    data = random_federation(clients=12)
    changes = {"training__cohort": {"clients": 7}, "training__rounds": 1, "training__hypotheses": 1}

    def one(**privacy: Any) -> Cell:
        given = {**changes, "privacy": {**DISTANCE, **privacy}}
        return table_cell(data if padded else one_by_one(data), **given)

    def played(cell: Cell) -> Any:
        stack = Stack([cell])
        stack.advance(1)
        return state(stack).hypotheses[0].astype(np.float64)

    plain = played(one(noise_multiplier=1e-3, distance_floor=1e12))
    noise = played(one()) - plain
    halved = played(one(noise_multiplier=1.0)) - plain
    floored = played(one(distance_floor=1e3)) - plain
    unit = build_protection([one()], torch.device("cpu"))
    assert isinstance(unit, TrustedServer)
    drawn = unit.draw_cell(CounterSource(one().spec.seed), np.array(1), np.arange(1)).vectors[0]
    scale = noise / drawn * 7 / DISTANCE["noise_multiplier"]
    assert scale == pytest.approx(np.full(len(scale), scale[0]), rel=1e-2)
    assert 0.05 < 1 / scale[0] < 20  # the distance of these models
    np.testing.assert_allclose(halved, 2 * noise, rtol=1e-2)
    np.testing.assert_allclose(floored / noise, 1 / (1e3 * scale[0]), rtol=5e-2)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"training__hypotheses": 2}, "/training/hypotheses"),
        ({"training__cohort": {"clients": 1}}, "/training/cohort/clients"),
        ({"training__cohort": {"sampling": "poisson", "rate": 0.5}}, "/training/cohort/sampling"),
        ({"privacy": {**DISTANCE, "delta": 1e-5}}, "/privacy/delta"),
    ],
)
def test_what_it_does_not_go_with_is_refused(changes: dict[str, Any], pointer: str) -> None:
    given = {"training__hypotheses": 1, "privacy": DISTANCE, **changes}
    assert pointer in {error.pointer for error in refused_by(parse_spec, groups_spec(**given))}
