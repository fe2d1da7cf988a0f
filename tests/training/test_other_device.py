"""Training on a device that is not the processor: everything is where it belongs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fedaudit.training.base.cell import Cell, is_by_length
from fedaudit.training.base.rounds import FinalResult
from fedaudit.training.stack import Stack
from tests.accelerator import GPU
from tests.training import other_device
from tests.training.federations import (
    COUNTS,
    RULE,
    image_cell,
    image_federation,
    one_by_one,
    table_cell,
    uneven,
)
from tests.training.gaussian import LAYERS, MECHANISMS
from tests.training.other_device import DEVICE, transfers
from tests.training.personalised import records_spec
from tests.training.round_records import RoundRecord
from tests.training.specs import cell, groups_spec, play
from tests.training.test_methods import SPECS, method_spec
from tests.training.test_one_by_one import assert_alike, classifying

ROUNDS = 3
BATCHES = {"training__local": {"epochs": 2, "batch_size": 4, "step_size": 0.05}}
STACKED: dict[str, dict[str, Any]] = {
    **MECHANISMS,
    "blocks": {
        **MECHANISMS["blocks"],
        "training__cohort": {"sampling": "allocation", "every": ROUNDS},
    },
    "layers": {**LAYERS, "privacy__clip": 0.05, "privacy__radius": 0.1},
    "wide, batches": {"model": {"kind": "mlp", "hidden": [24]}, **BATCHES},
    "reported": {"training__clustering": {"method": "reported"}},
}


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch) -> None:
    if GPU is None:
        monkeypatch.setattr(torch, "tensor", other_device.tensor)
    transfers.clear()


def _stacked(name: str) -> Callable[[], Cell]:
    return lambda: cell(groups_spec(training__rounds=ROUNDS, **STACKED[name]))


def _method(name: str) -> Callable[[], Cell]:
    return lambda: cell(method_spec(**SPECS[name], training__rounds=ROUNDS))


def _images() -> Cell:
    images = image_federation(clients=9, max_rows=6)
    return image_cell(images, model={"kind": "cnn-femnist"}, training__rounds=2, **BATCHES)


def _one_after_the_other() -> Cell:
    federation = one_by_one(uneven([5, 6, 7] * 5, classes=3))
    return table_cell(federation, training__rounds=ROUNDS, **classifying())


def _by_length() -> Cell:
    made = table_cell(uneven([*COUNTS, 4_000]), fairness=RULE, training__rounds=2)
    assert is_by_length(made)
    return made


CELLS: dict[str, Callable[[], Cell]] = {
    **{name: _stacked(name) for name in STACKED},
    **{name: _method(name) for name in SPECS},
    "records": lambda: cell(records_spec(training__rounds=ROUNDS)),
    "images": _images,
    "one after the other": _one_after_the_other,
    "by length": _by_length,
}


def _trained(made: Cell, device: str) -> tuple[list[RoundRecord], FinalResult]:
    trainer = Stack([made], device=device)
    return play(trainer, (3,)), trainer.result(0)


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_runs_are_the_same_up_to_rounding(make: Callable[[], Cell]) -> None:
    """The server's sums have another order there: the processor's loop is no work for a device."""
    (expected, final), (there, other) = _trained(make(), "cpu"), _trained(make(), DEVICE)
    assert GPU or transfers.counted, "nothing was computed on the device"
    assert len(there) == len(expected)
    for pair in zip(there, expected, strict=True):
        assert_alike(*pair)
    np.testing.assert_allclose(other.hypotheses, final.hypotheses, rtol=1e-4, atol=1e-5)
    if GPU:
        assert np.array_equal(_trained(make(), DEVICE)[1].hypotheses, other.hypotheses)


only_here = pytest.mark.skipif(GPU is not None, reason="a GPU counts no transfers")


@only_here
def test_what_leaves_the_device_does_not_grow_with_the_clients() -> None:
    counted = []
    for clients in (20, 40):
        transfers.clear()
        asked = {"clients": clients}
        made = cell(
            groups_spec(training__cohort=asked, training__rounds=ROUNDS, **STACKED["reported"])
        )
        _trained(made, DEVICE)
        counted.append(dict(transfers.counted))
    assert counted[0] == counted[1]


@only_here
def test_the_device_refuses_what_lies_elsewhere() -> None:
    there = torch.ones(3, device=DEVICE)
    assert (there + torch.ones(())).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match=r"add\.Tensor: tensors \[\(3,\)\] are not on"):
        there + torch.ones(3)
    with pytest.raises(RuntimeError, match=r"\.numpy\(\) is not supported"):
        there.numpy()
