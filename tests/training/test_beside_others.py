"""What a client learns is the same to the last bit, no matter which clients learn beside it.

A client who comes or goes then moves a sum by its own contribution and nothing else, which is what
noise is scaled to.
"""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedaudit.training.base.cell import Cell, split_cells
from fedaudit.training.engine import ByLength, SideBySide, build_engines
from fedaudit.training.stacked.stack_round import Cohort
from tests.accelerator import DEVICE
from tests.training.federations import random_federation, table_cell, uneven
from tests.training.gaussian import ADAM, MOVES
from tests.training.test_one_by_one import NAMED

BATCHES: dict[str, Any] = {"epochs": 2, "batch_size": 4, "step_size": 0.05}
WIDE = {"kind": "mlp", "hidden": [40, 20]}
SQUARED = {"training__loss": "mse"}
CELLS: dict[str, Cell] = {
    "linear": table_cell(random_federation(), **SQUARED),
    "batches": table_cell(random_federation(max_rows=30), **SQUARED, training__local=BATCHES),
    "adam": table_cell(random_federation(max_rows=9), **SQUARED, training__local=ADAM),
    "momentum": table_cell(random_federation(max_rows=9), **SQUARED, **MOVES["momentum"]),
    "wide": table_cell(random_federation(max_rows=20, width=50), **SQUARED, model=WIDE),
    "named layers": table_cell(random_federation(max_rows=20, width=9), **SQUARED, model=NAMED),
    "long": table_cell(random_federation(max_rows=300, width=30), **SQUARED),
    "by length": table_cell(uneven([1, 3, 200, 900, *[5] * 12, *[70] * 9]), **SQUARED),
    "by length, wide": table_cell(
        uneven([1, 3, 200, 900, *[5] * 12, *[70] * 9]),
        **SQUARED,
        model=WIDE,
        training__local={"epochs": 1, "batch_size": 16, "step_size": 0.05},
    ),
}


def learned(cell: Cell, clients: NDArray[np.int64]) -> Tensor:
    """What these clients make of the same hypotheses: [clients, n]."""
    engine, _ = build_engines([cell], split_cells([cell]), torch.device(DEVICE))
    assert isinstance(engine, SideBySide | ByLength)
    random = torch.Generator().manual_seed(3)
    hypotheses = cell.spec.training.hypotheses
    theta = 0.3 * torch.randn(1, hypotheses, cell.shape.n, generator=random)
    theta = theta.to(DEVICE)
    cohort = Cohort(
        rounds=np.array([3]),
        clients=clients[None],
        allowed=np.ones((1, len(clients)), dtype=np.bool_),
        noise=None,
    )
    with torch.no_grad():
        if isinstance(engine, ByLength):
            return engine._learn(theta, cohort).updated[0]
        columns = engine._data.columns(cohort.clients, [0])
        return engine._learns([columns])(0, theta, cohort).updated[0]


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
def test_what_a_client_learns_does_not_depend_on_who_learns_beside_it(cell: Cell) -> None:
    everyone = np.arange(cell.federation.clients)
    whole = learned(cell, everyone)
    assert whole.isfinite().all()
    differ = {}
    for count in (1, 2, 3, 7, 8, 15, 16, 17, len(everyone) - 1):
        for first in (0, len(everyone) - count):
            some = everyone[first : first + count]
            found = learned(cell, some)
            apart = (found != whole[some]).any(-1).sum().item()
            if apart:
                differ[count, first] = (apart, (found - whole[some]).abs().max().item())
    assert not differ
