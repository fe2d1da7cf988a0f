"""Which cells are spread over processes."""

from typing import Any

import pytest

from fedaudit.training.base.cell import Cell
from fedaudit.training.ranks.gains import gains_from_helpers
from tests.training.federations import image_cell, image_federation, random_federation, table_cell

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
