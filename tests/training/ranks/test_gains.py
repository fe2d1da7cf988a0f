"""Which cells are spread over processes."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fedaudit.networks.client_network import ClientNetwork
from fedaudit.training.base.cell import Cell
from fedaudit.training.ranks.gains import gains_from_helpers
from tests.training.federations import image_cell, image_federation, random_federation, table_cell
from tests.training.one_by_one.test_client_by_client import CONVOLUTIONS

IMAGES = image_federation(clients=9, max_rows=30)
LONG: dict[str, Any] = {
    "training__rounds": 2_000,
    "training__local": {"epochs": 5, "batch_size": 4},
}


@pytest.mark.parametrize(
    ("cell", "gains"),
    [
        (image_cell(IMAGES, **LONG), True),
        (image_cell(IMAGES, **{**LONG, "training__rounds": 3}), False),
        (image_cell(IMAGES, **LONG, model={"kind": "mlp", "hidden": [1200]}), False),
        (image_cell(IMAGES, **LONG, model={"kind": "logistic"}), False),
        (table_cell(random_federation(), **LONG), False),
    ],
    ids=["cnn", "few rounds", "dense", "small", "side by side"],
)
def test_large_convolutions_over_many_rounds_are(cell: Cell, gains: bool) -> None:
    assert gains_from_helpers(cell) == gains


@pytest.mark.parametrize(
    "model",
    [{"kind": "cnn-femnist"}, {"kind": "mlp", "hidden": [20, 10]}, CONVOLUTIONS],
    ids=["cnn", "dense", "layers"],
)
def test_products_are_those_that_torch_counts(model: dict[str, Any]) -> None:
    cell = image_cell(IMAGES, model=model)
    network = ClientNetwork(cell.shape, torch.device("cpu"))
    with FlopCounterMode(display=False) as counter:
        network.outputs(torch.zeros(1, cell.federation.width))
    assert counter.get_total_flops() == 2 * cell.shape.products
